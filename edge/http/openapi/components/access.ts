// Issuers of tokens, AuthZEN, hooks, and events for agents.

import { Actor } from '../../../../shared/evidence/actor.ts'
import { ISSUERS } from '../../../../shared/routes/issuers.ts'
import { AccessDecision, Evaluation, Evaluations } from '../../../../shared/wire/authzen.ts'
import { DecisionCode } from '../../../../shared/wire/explanation.ts'
import { ClaudeCodeAnswer, ClaudeCodeHook } from '../../../../shared/wire/hooks.ts'
import {
  Algorithm,
  Issuer,
  IssuerSpec,
  PublicJwk,
  TokenFault,
  TokenRule,
  TokenVerdict,
} from '../../../../shared/wire/issuers.ts'
import { AgentDelivery } from '../../../../shared/wire/principals.ts'
import { type Component, object, opaque, outlined, plain } from './component.ts'

const ISSUER = {
  issuer: 'The claim `iss`, compared exactly.',
  jwks: 'Its keys, or where to find them.',
  audiences: 'The claim `aud` must hold one of them. By default the addresses of this edge.',
  algorithms: 'The accepted signature algorithms.',
  rules: 'The first rule that matches names the agent.',
  max_age_s: 'The longest time since the token was issued (`iat`).',
  require: 'Claims that a token must have, besides `exp` and `sub`.',
  advertise: 'Whether the metadata of RFC 9728 names it.',
}

const EVALUATION = {
  subject: '`agent` and its name.',
  action: '`tools/call` is the only action that can be permitted.',
  resource: '`tool` and its name; `properties.arguments` are those of the call.',
  context: '`session`, `channel` and `device` of the run.',
}

export const ACCESS: Readonly<Record<string, Component>> = {
  Algorithm: plain(Algorithm, 'A signature algorithm (RFC 7518, RFC 8037).'),
  PublicJwk: opaque(PublicJwk, 'A public key as a JWK (RFC 7517, 7518, 8037).'),
  TokenRule: object(TokenRule, 'Tokens whose claims all match authenticate the agent.', {
    claims: 'By claim: the exact value, or a `prefix` of it.',
    agent: '',
  }),
  IssuerSpec: object(IssuerSpec, 'An issuer as an operator stores it.', ISSUER),
  Issuer: object(Issuer, 'An issuer whose tokens authenticate agents.', {
    ...ISSUER,
    name: '',
    put_by: '',
    put_at_ms: 'When it was stored.',
  }),
  Actor: object(Actor, 'The actor behind an agent, as the issuer of its token asserts it.', {
    issuer: 'The claim `iss`.',
    subject: 'The claim `sub`: the workload or person on whose behalf the agent acts.',
    client: 'The claim `azp` or `client_id`: the application that got the token.',
    acting: 'The claim `act.sub` (RFC 8693): who acts for the subject.',
    jti_sha256: 'The digest of the claim `jti`.',
  }),
  TokenFault: plain(TokenFault, 'Why a token is refused.'),
  TokenVerdict: plain(TokenVerdict, 'How the edge judges a token now.'),
  ProtectedResource: object(ISSUERS.resourceMetadata.result, 'Metadata of a protected resource (RFC 9728).', {
    resource: 'The address that tokens must name as their audience.',
    authorization_servers: 'The issuers.',
    bearer_methods_supported: 'How a token is sent.',
    resource_name: 'The name of the resource, for people.',
  }),
  DecisionCode: plain(DecisionCode, 'The code of a decision.'),
  Entity: object(Evaluation.shape.subject, 'A subject or resource of AuthZEN.', {
    type: 'Its type.',
    id: 'Its name.',
    properties: 'Its properties.',
  }),
  Evaluation: object(Evaluation, 'An AuthZEN request: whether an agent may call a tool.', EVALUATION),
  Evaluations: outlined(
    object(Evaluations, 'Several AuthZEN requests, with defaults of what they leave out.', {
      ...EVALUATION,
      evaluations: 'Each as `Evaluation`. Without them, the defaults are the one evaluation.',
      options: 'When to stop.',
    }),
    'subject',
    'action',
    'resource',
  ),
  AccessDecision: outlined(
    object(AccessDecision, 'An AuthZEN decision.', {
      decision: 'Whether the call would be allowed now.',
      context: 'Why, what would change it, and where humans can be asked.',
    }),
    'context',
  ),
  ClaudeCodeHook: object(ClaudeCodeHook, 'What Claude Code posts before it runs a tool.', {
    hook_event_name: 'The event.',
    session_id: 'The session of Claude Code.',
    tool_name: 'Its tool.',
    tool_input: 'The arguments.',
  }),
  ClaudeCodeAnswer: outlined(
    object(ClaudeCodeAnswer, 'The advice, as Claude Code reads it.', {
      hookSpecificOutput: 'Whether to run the tool, and why.',
    }),
    'hookSpecificOutput',
  ),
  AgentDelivery: object(AgentDelivery, 'An event for an agent’s webhook.', {
    id: 'The same for each attempt: the `webhook-id`.',
    type: 'What happened.',
    call: '',
    state: 'Whether it was delivered.',
    tries: 'The number of attempts.',
    next_at_ms: 'When the next attempt is.',
    changed_at_ms: 'When its state last changed.',
    why: 'Why it was not delivered.',
  }),
}
