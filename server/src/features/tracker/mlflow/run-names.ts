import { randomInt } from 'node:crypto'

const adjectives =
  'able amber bold brave bright calm clean clear clever crisp eager early fair fine firm fleet fond free fresh gentle glad golden grand handy happy honest keen kind lively loyal lucid mellow merry mild neat nimble noble open patient plain polite prime proud quick quiet rapid ready rustic sharp silent silver simple sleek smart smooth sober solid spry steady still sunny swift tidy tranquil true vivid warm wise witty young zesty'.split(
    ' ',
  )
const nouns =
  'ant badger bat bear beaver bee bison boar bream carp cat colt crab crane crow deer dolphin dove duck eagle eel elk falcon finch fish fox frog gnat goat goose grouse gull hare hawk hen heron horse hound ibis jay kite koi lamb lark lion lynx mare mink mole moose moth mouse mule newt otter owl ox panda perch pike pony quail ram raven robin rook seal shad shark sheep shrew skunk slug snail sole sow squid stag stork swan tern toad trout vole wasp whale wolf wren yak'.split(
    ' ',
  )

/** A name that people can tell apart and say, for a run that came without one. */
export const randomRunName = (): string =>
  `${adjectives[randomInt(adjectives.length)]}-${nouns[randomInt(nouns.length)]}-${randomInt(1000)}`
