// The part of s3rver that we use; the package has no types.
declare module 's3rver' {
  // biome-ignore lint/style/noDefaultExport: the package has one
  export default class S3rver {
    constructor(options: {
      port: number
      address: string
      silent: boolean
      directory: string
      configureBuckets: { name: string }[]
    })
    run(): Promise<{ port: number }>
    close(): Promise<void>
  }
}
