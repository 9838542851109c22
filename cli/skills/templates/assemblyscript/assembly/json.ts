// A small JSON reader and writer. Reading a missing member gives null, or an empty string for
// `text`.

export const enum Kind {
  NULL,
  BOOL,
  NUMBER,
  TEXT,
  LIST,
  OBJECT,
}

const DEPTH_MAX: i32 = 64

export class Json {
  flag: bool = false
  number: f64 = 0
  string: string = ''
  /** The items of a list, or the members of an object in the order of `names`. */
  items: Json[] = []
  names: string[] = []

  constructor(public kind: Kind) {}

  static parse(text: string): Json | null {
    const reader = new Reader(text)
    const value = reader.value(0)
    reader.space()
    return reader.failed || reader.at != text.length ? null : value
  }

  static of(text: string): Json {
    const json = new Json(Kind.TEXT)
    json.string = text
    return json
  }
  static count(value: f64): Json {
    const json = new Json(Kind.NUMBER)
    json.number = value
    return json
  }
  static object(): Json {
    return new Json(Kind.OBJECT)
  }

  set(name: string, value: Json): void {
    this.names.push(name)
    this.items.push(value)
  }

  get(name: string): Json | null {
    const at = this.names.indexOf(name)
    return at < 0 ? null : this.items[at]
  }

  text(name: string): string {
    const found = this.get(name)
    return found == null ? '' : found.string
  }

  toString(): string {
    const out: string[] = []
    this.write(out)
    return out.join('')
  }

  private write(out: string[]): void {
    if (this.kind == Kind.NULL) out.push('null')
    else if (this.kind == Kind.BOOL) out.push(this.flag ? 'true' : 'false')
    else if (this.kind == Kind.NUMBER) out.push(written(this.number))
    else if (this.kind == Kind.TEXT) out.push(quoted(this.string))
    else {
      const isObject = this.kind == Kind.OBJECT
      out.push(isObject ? '{' : '[')
      for (let i = 0; i < this.items.length; i++) {
        if (i > 0) out.push(',')
        if (isObject) {
          out.push(quoted(this.names[i]))
          out.push(':')
        }
        this.items[i].write(out)
      }
      out.push(isObject ? '}' : ']')
    }
  }
}

/** Writes whole numbers without a fraction. */
function written(value: f64): string {
  const whole = <i64>value
  return <f64>whole == value ? whole.toString() : value.toString()
}

function quoted(text: string): string {
  const out: string[] = ['"']
  let from = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code >= 0x20 && code != 0x22 && code != 0x5c) continue
    out.push(text.substring(from, i))
    if (code >= 0x20) out.push('\\' + String.fromCharCode(code))
    else out.push('\\u00' + (code < 16 ? '0' : '') + code.toString(16))
    from = i + 1
  }
  out.push(text.substring(from))
  out.push('"')
  return out.join('')
}

class Reader {
  at: i32 = 0
  failed: bool = false

  constructor(private readonly text: string) {}

  private code(): i32 {
    return this.at < this.text.length ? this.text.charCodeAt(this.at) : -1
  }

  private fail(): Json {
    this.failed = true
    return new Json(Kind.NULL)
  }

  space(): void {
    for (let c = this.code(); c == 0x20 || c == 0x0a || c == 0x0d || c == 0x09; c = this.code()) this.at++
  }

  private take(code: i32): bool {
    this.space()
    if (this.code() != code) return false
    this.at++
    return true
  }

  private word(word: string): bool {
    if (!this.text.substr(this.at, word.length).startsWith(word)) return false
    this.at += word.length
    return true
  }

  value(depth: i32): Json {
    this.space()
    if (depth > DEPTH_MAX || this.failed) return this.fail()
    const code = this.code()
    if (code == 0x22) return Json.of(this.quoted())
    if (code == 0x7b || code == 0x5b) return this.nested(depth, code == 0x7b)
    if (this.word('null')) return new Json(Kind.NULL)
    const isTrue = this.word('true')
    if (isTrue || this.word('false')) {
      const json = new Json(Kind.BOOL)
      json.flag = isTrue
      return json
    }
    return this.amount()
  }

  private nested(depth: i32, isObject: bool): Json {
    this.at++
    const json = new Json(isObject ? Kind.OBJECT : Kind.LIST)
    const end = isObject ? 0x7d : 0x5d
    if (this.take(end)) return json
    while (!this.failed) {
      if (isObject) {
        this.space()
        json.names.push(this.quoted())
        if (!this.take(0x3a)) return this.fail()
      }
      json.items.push(this.value(depth + 1))
      if (this.take(end)) return json
      if (!this.take(0x2c)) return this.fail()
    }
    return json
  }

  private amount(): Json {
    const from = this.at
    for (let c = this.code(); (c >= 0x30 && c <= 0x39) || c == 0x2d || c == 0x2b || c == 0x2e || (c | 0x20) == 0x65; c = this.code()) this.at++
    const value = parseFloat(this.text.substring(from, this.at))
    return from == this.at || isNaN(value) ? this.fail() : Json.count(value)
  }

  private quoted(): string {
    if (this.code() != 0x22) {
      this.failed = true
      return ''
    }
    const out: string[] = []
    let from = ++this.at
    while (!this.failed) {
      const code = this.code()
      if (code < 0x20) this.failed = true
      else if (code == 0x22) {
        out.push(this.text.substring(from, this.at++))
        return out.join('')
      } else if (code == 0x5c) {
        out.push(this.text.substring(from, this.at++))
        out.push(this.escape())
        from = this.at
      } else this.at++
    }
    return ''
  }

  private escape(): string {
    const code = this.code()
    this.at++
    if (code == 0x6e) return '\n'
    if (code == 0x74) return '\t'
    if (code == 0x72) return '\r'
    if (code == 0x62) return '\b'
    if (code == 0x66) return '\f'
    if (code == 0x22 || code == 0x5c || code == 0x2f) return String.fromCharCode(code)
    if (code != 0x75) this.failed = true
    const digits = this.text.substr(this.at, 4)
    this.at += 4
    return String.fromCharCode(<i32>parseInt(digits, 16))
  }
}
