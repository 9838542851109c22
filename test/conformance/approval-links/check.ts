// The types that the parts of the suite share: an approval under test, a check, and its result.
// They know no product.

export type Seen = {
  /** `ended`: the target sees only the page, which no longer asks. */
  readonly status: 'pending' | 'approved' | 'denied' | 'expired' | 'cancelled' | 'ended'
  /** The number of answers that the product has on record, if the target can tell. */
  readonly answers?: number
}

/** A waiting approval, and the link of one approver. */
export type Ask = { readonly link: string; look(): Promise<Seen> }

/** Makes approvals. Undefined: there are no more, or none can expire that soon. */
export type Target = { open(expiresInSeconds?: number): Promise<Ask | undefined> }

export type Settings = {
  /** The field for yes, and the one for no. */
  readonly approve: readonly [name: string, value: string]
  readonly deny: readonly [name: string, value: string]
  readonly posts: number
  readonly mutations: number
  readonly seed: number
  /** The lifetime of an approval that is made to expire. */
  readonly life_s: number
}

/** Each fault is a sentence about an observation. Without faults the promise is kept. */
type Faults = Promise<readonly string[]>
type Kind =
  | { readonly needs: 'one'; run(ask: Ask, settings: Settings): Faults }
  | { readonly needs: 'two'; run(ask: Ask, settings: Settings, other: Ask): Faults }
  | { readonly needs: 'short-lived'; run(ask: Ask, settings: Settings): Faults }
export type Check = { readonly name: string; readonly promise: string } & Kind

export async function stillPending({ look }: Ask, after: string): Promise<string[]> {
  const { status } = await look()
  return status === 'pending' ? [] : [`after ${after} the approval is ${status}`]
}
