// The contract between the router and the verbs of this room. Types only.

import type { z } from 'zod'
import type { Result } from '../../shared/result.ts'
import type { RouteName, Routes } from '../../shared/routes/all.ts'
import type { Output } from '../../shared/routes/client.ts'
import type { Route } from '../../shared/routes/route.ts'
import type { Env } from '../bindings.ts'
import type { Identified } from '../http/intake.ts'

type Part<R extends Route, K extends 'params' | 'query' | 'headers' | 'body'> = R[K] extends z.ZodType
  ? z.output<R[K]>
  : undefined

/** The input of a verb: a request that has passed every check of its route. */
export type Incoming<N extends RouteName> = {
  env: Env
  request: Request
  params: Part<Routes[N], 'params'>
  query: Part<Routes[N], 'query'>
  headers: Part<Routes[N], 'headers'>
  body: Part<Routes[N], 'body'>
} & (Routes[N] extends { callers: readonly ('anyone' | 'link' | 'slack' | 'console' | 'installation')[] }
  ? { caller: null }
  : { caller: Identified })

/** Returns the route's result, or a Response if the route is not JSON or chooses its status. */
export type Verb<N extends RouteName> = (incoming: Incoming<N>) => Promise<Result<Output<N> | Response>>
export type Verbs<N extends RouteName> = { [K in N]: Verb<K> }
