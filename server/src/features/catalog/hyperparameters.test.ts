import { describe, expect, test } from 'vitest'
import type { PlatformError } from '../../platform/errors.ts'
import { frameworks } from './catalogue.ts'
import { flattened, resolveHyperparameters } from './hyperparameters.ts'

const models = frameworks.flatMap((framework) => framework.models)
const resnet = models.find(({ key }) => key === 'resnet18')!

function faultsOf(text: string, model = resnet) {
  try {
    resolveHyperparameters(model, text)
  } catch (error) {
    return (error as PlatformError).detail as { loc: string[]; msg: string; type: string }[]
  }
  throw new Error('it was taken')
}

describe('resolveHyperparameters', () => {
  test('gives the defaults of every model of the catalogue for no text', () => {
    for (const model of models) {
      expect(resolveHyperparameters(model, '')).toMatchObject({
        epochs: expect.any(Number),
        image_size: expect.any(Number),
        early_stopping: { patience: 0 },
      })
    }
  })

  test('lays what the text names over the defaults, also inside groups', () => {
    const values = resolveHyperparameters(
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
    ['epochs: many', 'epochs', 'must be a number'],
    ['epochs: .nan', 'epochs', 'must be a number'],
    ['epochs:', 'epochs', 'must be a number'],
    ['optimizer: 3', 'optimizer', 'must be a text'],
    ['early_stopping: 5', 'early_stopping', 'must be a group with the keys patience'],
  ])('422 says what %s should be', (text, key, message) => {
    const [fault] = faultsOf(text)
    expect(fault).toMatchObject({ loc: ['body', 'hyperparameters', key], msg: expect.stringContaining(message) })
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
