import { describe, expect, test } from 'vitest'
import type { PlatformError } from '../../platform/errors.ts'
import { frameworks } from './catalogue.ts'
import { flattened, resolveHyperparameters } from './hyperparameters.ts'

const models = frameworks.flatMap((framework) => framework.models)
const rules = frameworks[0]!.hyperparameters
const resnet = models.find(({ key }) => key === 'resnet18')!

function faultsOf(text: string, model = resnet) {
  try {
    resolveHyperparameters(rules, model, text)
  } catch (error) {
    return (error as PlatformError).detail as { loc: string[]; msg: string; type: string }[]
  }
  throw new Error('it was taken')
}

describe('resolveHyperparameters', () => {
  test('gives the defaults of every model of the catalogue for no text', () => {
    for (const model of models) {
      expect(resolveHyperparameters(rules, model, '')).toMatchObject({
        epochs: expect.any(Number),
        image_size: expect.any(Number),
        early_stopping: { patience: 0 },
      })
    }
  })

  test('lays what the text names over the defaults, also inside groups', () => {
    const values = resolveHyperparameters(
      rules,
      resnet,
      '# mine\nepochs: 3\nlearning_rate: 1e-3\nearly_stopping: {patience: 2}\n',
    )
    expect(values).toMatchObject({ epochs: 3, learning_rate: 0.001, optimizer: 'adamw' })
    expect(values.early_stopping).toEqual({ patience: 2, metric: 'top1', min_delta: 0 })
  })

  test('422 names an unknown key with its place and lists the known ones', () => {
    expect(faultsOf('epochs: 3\nlerning_rate: 1\nearly_stopping:\n  paitence: 2\n')).toEqual([
      expect.objectContaining({
        loc: ['body', 'hyperparameters', 'lerning_rate'],
        msg: expect.stringMatching(/^is not known; allowed: epochs, .*learning_rate.* \(line 2, column 1\)$/),
      }),
      expect.objectContaining({
        loc: ['body', 'hyperparameters', 'early_stopping', 'paitence'],
        msg: expect.stringContaining('allowed: patience, metric, min_delta (line 4, column 3)'),
      }),
    ])
  })

  test.each([
    ['epochs: many', 'epochs', 'must be a whole number'],
    ['epochs: 2.5', 'epochs', 'must be a whole number'],
    ['epochs: 0', 'epochs', 'must lie between 1 and 10000'],
    ['epochs:', 'epochs', 'must be a whole number'],
    ['learning_rate: .nan', 'learning_rate', 'must be a number'],
    ['learning_rate: 1e400', 'learning_rate', 'must be a number'],
    ['learning_rate: 11', 'learning_rate', 'must lie between 1e-7 and 10'],
    ['optimizer: 3', 'optimizer', 'must be one of adamw, sgd'],
    ['optimizer: [adamw]', 'optimizer', 'must be one of adamw, sgd'],
    ['early_stopping: 5', 'early_stopping', 'must be a group with the keys patience'],
  ])('422 says what %s should be', (text, key, message) => {
    const [fault] = faultsOf(text)
    expect(fault).toMatchObject({ loc: ['body', 'hyperparameters', key], msg: expect.stringContaining(message) })
  })

  test('422 names the key within a group', () => {
    const [fault] = faultsOf('augmentation:\n  crop: 0\n')
    expect(fault).toMatchObject({
      loc: ['body', 'hyperparameters', 'augmentation', 'crop'],
      msg: 'must lie between 0.05 and 1 (line 2, column 3)',
    })
  })

  test('takes the defaults of every model of the catalogue when they are written out', () => {
    for (const model of models)
      expect(resolveHyperparameters(rules, model, model.hyperparameters_yaml)).toEqual(
        resolveHyperparameters(rules, model, ''),
      )
  })

  test.each([
    ['epochs: [3', 'is not valid YAML'],
    ['epochs: 1\nepochs: 2', 'is not valid YAML'],
    ['- epochs', 'must be a mapping'],
    ['just text', 'must be a mapping'],
  ])('422 for %j', (text, message) => {
    const [fault] = faultsOf(text)
    expect(fault).toMatchObject({ loc: ['body', 'hyperparameters'], msg: expect.stringContaining(message) })
  })

  test('422 for an image size that the model cannot take', () => {
    const vit = models.find(({ image_size_multiple }) => image_size_multiple > 1)!
    expect(faultsOf('image_size: 16')[0]!.msg).toBe('must be at least 32 for resnet18')
    expect(faultsOf('image_size: 100', vit)[0]!.msg).toBe(
      `must be a multiple of ${vit.image_size_multiple} for ${vit.key}`,
    )
  })

  test('aliases neither grow nor reach into what the defaults are made of', () => {
    const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nepochs: *b\n__proto__: {epochs: 1}\n`
    expect(faultsOf(bomb).map(({ loc }) => loc.at(-1))).toEqual(['a', 'b', 'epochs', '__proto__'])
  })
})

describe('flattened', () => {
  test('joins the keys of groups with a dot', () => {
    expect(flattened({ epochs: 3, early_stopping: { metric: 'loss' } })).toEqual({
      epochs: '3',
      'early_stopping.metric': 'loss',
    })
  })
})
