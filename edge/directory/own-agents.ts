// Names of agents for calls that the edge makes itself. No tenant can create an agent with such a name.

const OWN_AGENT = 'countersign'

/** The principal of calls that list the tools of an upstream. */
export const listerOf = (upstream: string): string => `${OWN_AGENT}.${upstream}`

export const isOwnAgent = (name: string): boolean => name === OWN_AGENT || name.startsWith(`${OWN_AGENT}.`)
