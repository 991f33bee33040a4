import type { TaskType } from './catalogue.ts'

/** A predefined experiment: what to fill the form with. */
export interface Preset {
  key: string
  title: string
  description: string
  task: TaskType
  framework: string
  model: string
  /** Over the defaults of the model. */
  hyperparameters: string
}

/** In the order they are shown. */
export const presets: readonly Preset[] = [
  {
    key: 'try-out',
    title: 'Try it out',
    description: 'A small network for a few minutes: shows whether the data can be learned at all.',
    task: 'image_classification',
    framework: 'torchvision',
    model: 'small_cnn',
    hyperparameters: 'epochs: 10\n',
  },
  {
    key: 'balanced',
    title: 'Balanced',
    description: 'ResNet-18 with the defaults: a good model from a few hundred images, without a GPU.',
    task: 'image_classification',
    framework: 'torchvision',
    model: 'resnet18',
    hyperparameters: '',
  },
  {
    key: 'small-device',
    title: 'For a small device',
    description: 'MobileNetV3 small: few parameters and quick answers; needs more epochs than ResNet-18.',
    task: 'image_classification',
    framework: 'torchvision',
    model: 'mobilenet_v3_small',
    hyperparameters: '',
  },
  {
    key: 'stop-when-done',
    title: 'Until it no longer improves',
    description: 'ResNet-18 for up to 60 epochs; ends when the validation loss has not improved for 10.',
    task: 'image_classification',
    framework: 'torchvision',
    model: 'resnet18',
    hyperparameters: 'epochs: 60\nearly_stopping:\n  patience: 10\n  metric: loss\n',
  },
]
