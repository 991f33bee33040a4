import { Type } from 'typebox'
import { countingNumber, named, notBlank, nullable, oneOf, pageOf, timestamp, uuid } from '../../platform/schema.ts'
import { promotionStatuses } from './promotions.store.ts'

const text = (description: string) => Type.String({ description })
const given = (description: string) => Type.String({ minLength: 1, maxLength: 5000, ...notBlank, description })
const version = (description: string) => Type.String({ ...countingNumber, description, examples: ['3'] })

export const PromotionStatusName = oneOf(promotionStatuses, { description: 'Where the request stands.' })

export const PromotionOut = named('Promotion', {
  id: uuid('Promotion.'),
  model: text('Name of the model.'),
  from_version: version('Version the request was raised from.'),
  to_version: version('Version that is to become Production.'),
  status: PromotionStatusName,
  reason: text('Why it should be promoted.'),
  rollback_conditions: nullable(text('When to go back, in words.')),
  scope: nullable(text('What it is for, in words.')),
  requested_by: text('Who asked.'),
  decided_by: nullable(text('Who approved, rejected or canceled.')),
  decision_comment: nullable(text('What was said with it.')),
  replaced_versions: Type.Array(version('Version.'), { description: 'What was in Production before it.' }),
  gates: Type.Array(
    named('PromotionGate', {
      name: oneOf(['files', 'lineage', 'image', 'validation', 'drift'], { description: 'What was looked at.' }),
      state: oneOf(['passed', 'failed', 'unknown'], { description: 'What came of it; it advises and never decides.' }),
      message: text('In words, with the figures.'),
      figures: Type.Array(
        Type.Object({
          key: text('Figure.'),
          value: Type.Number({ description: 'Of this version.' }),
          reference: nullable(Type.Number({ description: 'Of the version in Production; null when it has none.' })),
          worse: nullable(Type.Boolean({ description: 'Whether it is worse than the reference.' })),
        }),
        { description: 'What the validation measured, beside the version in Production; empty for other gates.' },
      ),
    }),
    { description: 'What the platform can say about the version; of a decided request what it could say then.' },
  ),
  created_at: timestamp('When it was requested.'),
  expires_at: timestamp('When it expires undecided.'),
  decided_at: nullable(timestamp('When it was decided or expired.')),
  rolled_back_by: nullable(text('Who went back.')),
  rollback_reason: nullable(text('Why.')),
  rolled_back_at: nullable(timestamp('When.')),
})
export const PromotionPage = pageOf(PromotionOut)

export const PromoteRequest = named('PromoteRequest', {
  to_version: version('Version that is to become Production.'),
  reason: given('Why it should be promoted.'),
  rollback_conditions: Type.Optional(nullable(Type.String({ maxLength: 5000, description: 'When to go back.' }))),
  scope: Type.Optional(nullable(Type.String({ maxLength: 5000, description: 'What it is for.' }))),
})

export const PromotionApproval = named('PromotionApproval', {
  comment: Type.Optional(nullable(Type.String({ maxLength: 5000, description: 'What to say with it.' }))),
})

export const PromotionReason = named('PromotionReason', { reason: given('Why.') })
