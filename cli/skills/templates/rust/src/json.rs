//! A small JSON reader and writer, so that the template builds without crates. With crates, use
//! serde_json.
#![allow(dead_code)]

use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

const DEPTH_MAX: usize = 64;

impl Json {
    pub fn parse(text: &str) -> Result<Json, String> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.space();
        if reader.at == text.len() {
            Ok(value)
        } else {
            Err(reader.fault())
        }
    }

    pub fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
        Json::Object(members.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
    }

    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(one, _)| one == name).map(|(_, value)| value),
            _ => None,
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Json::Text(text)) => Some(text),
            _ => None,
        }
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::Text(text)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Json::Null => out.write_str("null"),
            Json::Bool(value) => write!(out, "{value}"),
            Json::Number(value) => write!(out, "{value}"),
            Json::Text(text) => quoted(out, text),
            Json::List(items) => {
                out.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(out, "{}{item}", if index == 0 { "" } else { "," })?;
                }
                out.write_str("]")
            }
            Json::Object(members) => {
                out.write_str("{")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    out.write_str(if index == 0 { "" } else { "," })?;
                    quoted(out, name)?;
                    write!(out, ":{value}")?;
                }
                out.write_str("}")
            }
        }
    }
}

fn quoted(out: &mut fmt::Formatter, text: &str) -> fmt::Result {
    out.write_str("\"")?;
    for one in text.chars() {
        match one {
            '"' | '\\' => write!(out, "\\{one}")?,
            '\u{0}'..='\u{1f}' => write!(out, "\\u{:04x}", one as u32)?,
            _ => write!(out, "{one}")?,
        }
    }
    out.write_str("\"")
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn fault(&self) -> String {
        format!("the input is not JSON at byte {}", self.at)
    }

    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == byte;
        self.at += found as usize;
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        self.space();
        if depth > DEPTH_MAX {
            return Err(self.fault());
        }
        for (word, value) in [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        match self.peek() {
            b'"' => self.string().map(Json::Text),
            b'[' => self.list(depth),
            b'{' => self.object(depth),
            _ => self.number(),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']') {
                return Ok(Json::List(items));
            }
            if !self.take(b',') {
                return Err(self.fault());
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut members = Vec::new();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            let name = self.string()?;
            if !self.take(b':') {
                return Err(self.fault());
            }
            members.push((name, self.value(depth + 1)?));
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return Err(self.fault());
            }
        }
    }

    fn number(&mut self) -> Result<Json, String> {
        let rest = &self.text[self.at..];
        let length = rest.find(|one: char| !matches!(one, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(rest.len());
        let value = rest[..length].parse().map_err(|_| self.fault())?;
        self.at += length;
        Ok(Json::Number(value))
    }

    fn string(&mut self) -> Result<String, String> {
        if self.peek() != b'"' {
            return Err(self.fault());
        }
        self.at += 1;
        let mut units: Vec<u16> = Vec::new(); // two escapes may form one character (a surrogate pair)
        loop {
            let one = self.text[self.at..].chars().next().ok_or_else(|| self.fault())?;
            self.at += one.len_utf8();
            match one {
                '"' => return String::from_utf16(&units).map_err(|_| self.fault()),
                '\\' => units.push(self.escape()?),
                '\u{0}'..='\u{1f}' => return Err(self.fault()),
                _ => units.extend_from_slice(one.encode_utf16(&mut [0; 2])),
            }
        }
    }

    fn escape(&mut self) -> Result<u16, String> {
        self.at += 1;
        Ok(match self.text.as_bytes().get(self.at - 1) {
            Some(b'n') => 10,
            Some(b't') => 9,
            Some(b'r') => 13,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(plain @ (b'"' | b'\\' | b'/')) => *plain as u16,
            Some(b'u') => {
                let digits = self.text.get(self.at..self.at + 4).ok_or_else(|| self.fault())?;
                self.at += 4;
                u16::from_str_radix(digits, 16).map_err(|_| self.fault())?
            }
            _ => return Err(self.fault()),
        })
    }
}
