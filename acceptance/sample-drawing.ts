/** A shape and the texture that fills it make a class. */
export interface SampleClass {
  name: string
  shape: Shape
  texture: Texture
}

type Shape = 'circle' | 'triangle' | 'square' | 'star'
type Texture = 'stripes' | 'dots' | 'rings' | 'checks'

const shapes: Shape[] = ['circle', 'triangle', 'square', 'star']
const textures: Texture[] = ['stripes', 'dots', 'rings', 'checks']

/**
 * Sixteen classes from easy to hard: the first four share neither shape nor texture, so either tells them apart; later
 * ones share a shape or a texture with others and need both.
 */
export const sampleClasses: SampleClass[] = textures.flatMap((_, shift) =>
  shapes.map((shape, index) => {
    const texture = textures[(index + shift) % textures.length] as Texture
    return { name: `${shape}-${texture}`, shape, texture }
  }),
)

type Colour = [number, number, number]

/**
 * Draws one image: a textured shape, turned, scaled and placed at random, on a shaded background with noise.
 * @param size side in pixels
 * @returns RGB, 8 bits each, row by row
 */
export function drawSample({ shape, texture }: SampleClass, size: number, seed: number): Uint8Array {
  const random = randomNumbers(seed)
  const between = (low: number, high: number) => low + (high - low) * random()
  const radius = size * between(0.24, 0.38)
  const centre = { x: size * between(0.38, 0.62), y: size * between(0.38, 0.62) }
  const turn = between(0, 2 * Math.PI)
  const textureTurn = between(0, 2 * Math.PI)
  const period = size * between(0.1, 0.14)
  const [dark, light, ground] = colours(random)
  const shade = { x: between(-0.5, 0.5), y: between(-0.5, 0.5) }
  const noise = between(6, 22)
  const pixels = new Uint8Array(size * size * 3)
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      const across = (x - centre.x) / radius
      const down = (y - centre.y) / radius
      const inside = isInside[shape](...rotated(across, down, turn))
      const [u, v] = rotated(x - centre.x, y - centre.y, textureTurn)
      const colour = inside ? (isDark[texture](u / period, v / period) ? dark : light) : ground
      const lit = 1 + shade.x * (x / size - 0.5) + shade.y * (y / size - 0.5)
      for (let channel = 0; channel < 3; channel++) {
        const value = (colour[channel] as number) * lit + noise * (random() + random() - 1)
        pixels[(y * size + x) * 3 + channel] = Math.max(0, Math.min(255, Math.round(value)))
      }
    }
  }
  return pixels
}

/** Whether a point lies in the shape, which fills about the unit circle. */
const isInside: Record<Shape, (x: number, y: number) => boolean> = {
  circle: (x, y) => x * x + y * y < 0.8,
  triangle: (x, y) => y < 0.5 && Math.sqrt(3) * Math.abs(x) - y < 1,
  square: (x, y) => Math.max(Math.abs(x), Math.abs(y)) < 0.75,
  star: (x, y) => Math.hypot(x, y) < 0.68 + 0.32 * Math.cos(5 * Math.atan2(y, x)),
}

/** Whether a point of the texture, in periods from the shape's centre, is dark; each is dark for about half. */
const isDark: Record<Texture, (u: number, v: number) => boolean> = {
  stripes: (u) => fraction(u) < 0.5,
  dots: (u, v) => Math.hypot(fraction(u) - 0.5, fraction(v) - 0.5) < 0.4,
  rings: (u, v) => fraction(Math.hypot(u, v)) < 0.5,
  checks: (u, v) => fraction(u) < 0.5 !== fraction(v) < 0.5,
}

const fraction = (value: number) => value - Math.floor(value)

const rotated = (x: number, y: number, turn: number): [number, number] => [
  x * Math.cos(turn) - y * Math.sin(turn),
  x * Math.sin(turn) + y * Math.cos(turn),
]

/** A dark, a light and a ground colour, each of any hue: colour says nothing about the class. */
function colours(random: () => number): [Colour, Colour, Colour] {
  const colour = (low: number, high: number): Colour => {
    const channel = () => low + (high - low) * random()
    return [channel(), channel(), channel()]
  }
  return [colour(10, 90), colour(150, 245), colour(60, 200)]
}

/** Repeatable random numbers in [0, 1). @source Mulberry32 by T. Ettinger (public domain) */
function randomNumbers(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
