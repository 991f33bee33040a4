import type { TenantCtx } from '../../platform/context.ts'
import { read, transaction } from '../../platform/transaction.ts'
import { type ComparedImage, type IdenticalImages, listCompared, listIdentical } from './dataset-statistics.store.ts'
import { markDuplicates, type Target } from './dataset-validation.store.ts'
import { addMany, type FindingCollector, toldPerCode } from './finding-collector.ts'
import { NearDuplicates } from './near-duplicates.ts'

const imagesPerPage = 2000
const marksPerTransaction = 10_000

/** What shows only when the images are compared: the same bytes twice, almost the same image, and both across splits. */
export async function compareImages(
  ctx: TenantCtx,
  target: Target,
  findings: FindingCollector,
  signal: AbortSignal,
): Promise<void> {
  while (await transaction(ctx, (tx) => markDuplicates(tx, target, marksPerTransaction))) signal.throwIfAborted()
  addIdentical(findings, await read(ctx, (tx) => listIdentical(tx, target, toldPerCode)))
  await addLookalikes(ctx, target, findings, signal)
}

function addIdentical(findings: FindingCollector, groups: IdenticalImages[]): void {
  const placeOf = ({ ids, paths }: IdenticalImages) => ({ fileId: ids[1] ?? null, path: paths[1] ?? null })
  addMany(findings, 'duplicate_image', {
    total: groups[0]?.copies ?? 0,
    found: groups.map((group) => ({ ...placeOf(group), message: `The same bytes as ${group.paths[0]}.` })),
  })
  const leaks = groups.filter(({ splits }) => splits.length > 1)
  addMany(findings, 'leakage_between_splits', {
    total: groups[0]?.leaks ?? 0,
    found: leaks.map((group) => ({
      ...placeOf(group),
      message: `The same image stands in ${group.splits.join(' and ')}: ${group.paths.join(', ')}.`,
    })),
  })
}

interface Pair {
  first: number
  image: number
}

/** Goes over the images once to compare them, and once more for the names of those that are told. */
async function addLookalikes(
  ctx: TenantCtx,
  target: Target,
  findings: FindingCollector,
  signal: AbortSignal,
): Promise<void> {
  const looks = new NearDuplicates()
  const splits: (string | null)[] = []
  for await (const image of comparedImages(ctx, target, signal)) {
    looks.add(image)
    splits.push(image.split)
  }
  const firstOf = await looks.find()
  const pairs: Pair[] = []
  for (const [image, first] of firstOf.entries()) if (first >= 0) pairs.push({ first, image })
  if (pairs.length === 0) return
  const leaks = pairs.filter(({ first, image }) => splits[first] && splits[image] && splits[first] !== splits[image])
  const told = { alike: pairs.slice(0, toldPerCode), leaks: leaks.slice(0, toldPerCode) }
  const named = await namesOf(ctx, target, [...told.alike, ...told.leaks], signal)
  const say = (list: Pair[], message: (first: ComparedImage, image: ComparedImage) => string) =>
    list.map((pair) => {
      const [first, image] = [named.get(pair.first)!, named.get(pair.image)!]
      return { fileId: image.id, path: image.path, message: message(first, image) }
    })
  addMany(findings, 'near_duplicate_image', {
    total: pairs.length,
    found: say(told.alike, (first) => `Looks like ${first.path}.`),
  })
  addMany(findings, 'leakage_between_splits', {
    total: leaks.length,
    found: say(
      told.leaks,
      (first, image) =>
        `Almost the same image stands in ${first.split} and ${image.split}: ${first.path}, ${image.path}.`,
    ),
  })
}

async function namesOf(ctx: TenantCtx, target: Target, pairs: Pair[], signal: AbortSignal) {
  const wanted = new Set(pairs.flatMap(({ first, image }) => [first, image]))
  const named = new Map<number, ComparedImage>()
  let number = 0
  for await (const image of comparedImages(ctx, target, signal)) {
    if (wanted.has(number)) named.set(number, image)
    if (named.size === wanted.size) break
    number++
  }
  return named
}

async function* comparedImages(ctx: TenantCtx, target: Target, signal: AbortSignal): AsyncGenerator<ComparedImage> {
  let after = ''
  for (;;) {
    signal.throwIfAborted()
    const page = await read(ctx, (tx) => listCompared(tx, target, after, imagesPerPage))
    yield* page
    if (page.length < imagesPerPage) return
    after = page.at(-1)!.path
  }
}
