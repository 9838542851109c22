import { objectOfRun } from '../../shared/ids.ts'
import { archiveObject, type Env } from '../bindings.ts'
import { archiveOf } from './archive-of.ts'

/** Removes the entry of the object that has this run. Part of deleting the tenant. */
export function dropEntry(env: Env, tenant: string, run: string): Promise<void> {
  const name = objectOfRun(run)
  return archiveObject(env, tenant, archiveOf(name)).drop(name)
}
