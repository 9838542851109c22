// What the suite's parts say to each other: an approval under test, a check, and what came of it. Nothing here knows any product.

export type Seen = {
  /** `ended` is said by who can only look at the page: it asks nothing any more. */
  readonly status: 'pending' | 'approved' | 'denied' | 'expired' | 'cancelled' | 'ended'
  /** How many answers the product has on record, where it can be asked. */
  readonly answers?: number
}

/** One approval that waits, and the link that one approver was given. */
export type Ask = { readonly link: string; look(): Promise<Seen> }

/** Makes approvals; `undefined`: no more of them, or none that expires that soon. */
export type Target = { open(expiresInSeconds?: number): Promise<Ask | undefined> }

export type Settings = {
  /** The field that says yes, and the one that says no. */
  readonly approve: readonly [name: string, value: string]
  readonly deny: readonly [name: string, value: string]
  readonly posts: number
  readonly mutations: number
  readonly seed: number
  /** How long an approval lives that is made to expire. */
  readonly life_s: number
}

/** Each fault is a sentence on what was seen; no fault, and the promise is kept. */
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
