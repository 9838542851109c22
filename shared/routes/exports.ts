// Routes for exports of evidence, on demand, and for the place where they are stored.

import { z } from 'zod'
import { RunId } from '../fields.ts'
import {
  EXPORT_START,
  ExportPosition,
  ExportTarget,
  ExportTargetSpec,
  StoredExport,
} from '../wire/exports.ts'
import { Bytes, routes } from './route.ts'

const run = z.strictObject({ run: RunId })
/** `next` of the previous part. */
const query = z.strictObject({ from: ExportPosition.default(EXPORT_START) })

export const EXPORTS = routes({
  putExportTarget: {
    method: 'PUT',
    path: '/v1/export-target',
    callers: ['operator'],
    action: 'export.write',
    summary:
      'Set the bucket of an S3-compatible store that receives exports; the edge stores a small object there first, and keeps the bucket only if that worked',
    body: ExportTargetSpec,
    status: 200,
    result: ExportTarget,
    failures: ['export_refused', 'export_mismatch', 'export_unavailable'],
  },
  readExportTarget: {
    method: 'GET',
    path: '/v1/export-target',
    callers: ['operator'],
    action: 'export.read',
    summary: 'Read the bucket that receives exports, without the secret of its access key',
    status: 200,
    result: ExportTarget,
    failures: ['no_export_target'],
  },
  deleteExportTarget: {
    method: 'DELETE',
    path: '/v1/export-target',
    callers: ['operator'],
    action: 'export.write',
    summary: 'Delete the export target; from then on, runs are removed without an export',
    status: 200,
    result: z.strictObject({ done: z.literal(true) }),
    failures: ['no_export_target'],
  },
  readExport: {
    method: 'GET',
    path: '/v1/runs/{run}/export',
    callers: ['operator'],
    action: 'run.read',
    params: run,
    query,
    media: 'application/octet-stream',
    summary:
      'Read a part of the export of a run, and of the runs that are stored with it, as JSON Lines; its last line says where the next part begins',
    status: 200,
    result: Bytes,
    failures: ['not_found'],
  },
  storeExport: {
    method: 'POST',
    path: '/v1/runs/{run}/export',
    callers: ['operator'],
    action: 'export.write',
    params: run,
    query,
    summary: 'Store a part of the export of a run in the export target; storing it again changes nothing',
    status: 200,
    result: StoredExport,
    failures: ['not_found', 'no_export_target', 'export_refused', 'export_mismatch', 'export_unavailable'],
  },
})
