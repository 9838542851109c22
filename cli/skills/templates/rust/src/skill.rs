//! The world `countersign:skill@0.1.0` for Rust, by the canonical ABI and without a crate. Only
//! functions that are used are imported.
#![allow(dead_code)]

use std::alloc::{alloc, realloc, Layout};

/// The host allocates memory for its values with this.
#[no_mangle]
unsafe extern "C" fn cabi_realloc(old: *mut u8, before: usize, align: usize, size: usize) -> *mut u8 {
    if size == 0 {
        return align as *mut u8;
    }
    let at = match before {
        0 => alloc(Layout::from_size_align_unchecked(size, align)),
        _ => realloc(old, Layout::from_size_align_unchecked(before, align), size),
    };
    if at.is_null() {
        std::process::abort();
    }
    at
}

/// `failed` is 0 for an output, 1 for an error message.
#[repr(C)]
pub struct Answer {
    failed: u32,
    text: *const u8,
    length: usize,
}

#[export_name = "run"]
unsafe extern "C" fn exported(tool: *mut u8, tool_length: usize, input: *mut u8, input_length: usize) -> *const Answer {
    let (tool, input) = (text(tool, tool_length), text(input, input_length));
    let (failed, text) = match crate::run(&tool, &input) {
        Ok(output) => (0, output),
        Err(why) => (1, why),
    };
    let bytes = text.into_bytes().leak(); // an instance lives for one call
    Box::into_raw(Box::new(Answer { failed, text: bytes.as_ptr(), length: bytes.len() }))
}

unsafe fn bytes(at: *mut u8, length: usize) -> Vec<u8> {
    if length == 0 {
        return Vec::new();
    }
    Vec::from_raw_parts(at, length, length)
}

unsafe fn text(at: *mut u8, length: usize) -> String {
    String::from_utf8_unchecked(bytes(at, length)) // the host passes strings as UTF-8
}

/// The area into which a host function writes its result.
#[repr(C, align(8))]
struct Area([usize; 8]);

impl Area {
    const NEW: Area = Area([0; 8]);

    fn at(&mut self) -> *mut usize {
        self.0.as_mut_ptr()
    }
    unsafe fn bytes(&self, word: usize) -> Vec<u8> {
        bytes(self.0[word] as *mut u8, self.0[word + 1])
    }
    unsafe fn text(&self, word: usize) -> String {
        text(self.0[word] as *mut u8, self.0[word + 1])
    }
    unsafe fn list<T: Copy>(&self, word: usize) -> Vec<T> {
        match self.0[word + 1] {
            0 => Vec::new(),
            length => Vec::from_raw_parts(self.0[word] as *mut T, length, length),
        }
    }
    unsafe fn checked(self) -> Result<Area, String> {
        match self.0[0] as u8 {
            0 => Ok(self),
            _ => Err(self.text(1)),
        }
    }
}

pub mod log {
    #[link(wasm_import_module = "countersign:skill/log@0.1.0")]
    extern "C" {
        #[link_name = "write"]
        fn host_write(level: *const u8, level_length: usize, text: *const u8, text_length: usize);
    }

    pub fn write(level: &str, text: &str) {
        unsafe { host_write(level.as_ptr(), level.len(), text.as_ptr(), text.len()) }
    }
}

pub mod clock {
    #[link(wasm_import_module = "countersign:skill/clock@0.1.0")]
    extern "C" {
        #[link_name = "now"]
        fn host_now() -> u64;
    }

    pub fn now() -> u64 {
        unsafe { host_now() }
    }
}

pub mod random {
    #[link(wasm_import_module = "countersign:skill/random@0.1.0")]
    extern "C" {
        #[link_name = "bytes"]
        fn host_bytes(count: u32, answer: *mut usize);
    }

    pub fn bytes(count: u32) -> Vec<u8> {
        let mut answer = super::Area::NEW;
        unsafe {
            host_bytes(count, answer.at());
            answer.bytes(0)
        }
    }
}

pub mod http {
    #[link(wasm_import_module = "countersign:skill/http@0.1.0")]
    extern "C" {
        #[link_name = "request"]
        fn host_request(
            method: *const u8,
            method_length: usize,
            url: *const u8,
            url_length: usize,
            headers: *const u8,
            headers_length: usize,
            body: *const u8,
            body_length: usize,
            answer: *mut usize,
        );
    }

    pub struct Response {
        pub status: u16,
        pub headers: Vec<(String, String)>,
        pub body: Vec<u8>,
    }

    /// `headers` are lines, `name: value`.
    pub fn request(method: &str, url: &str, headers: &str, body: &[u8]) -> Result<Response, String> {
        let mut answer = super::Area::NEW;
        unsafe {
            host_request(
                method.as_ptr(),
                method.len(),
                url.as_ptr(),
                url.len(),
                headers.as_ptr(),
                headers.len(),
                body.as_ptr(),
                body.len(),
                answer.at(),
            );
            let answer = answer.checked()?;
            let pairs: Vec<[usize; 4]> = answer.list(2);
            let pair = |[name, name_length, value, value_length]: [usize; 4]| {
                (super::text(name as *mut u8, name_length), super::text(value as *mut u8, value_length))
            };
            Ok(Response {
                status: answer.0[1] as u16,
                headers: pairs.into_iter().map(pair).collect(),
                body: answer.bytes(4),
            })
        }
    }
}

pub mod secrets {
    #[link(wasm_import_module = "countersign:skill/secrets@0.1.0")]
    extern "C" {
        #[link_name = "get"]
        fn host_get(name: *const u8, name_length: usize, answer: *mut usize);
    }

    pub fn get(name: &str) -> Result<String, String> {
        let mut answer = super::Area::NEW;
        unsafe {
            host_get(name.as_ptr(), name.len(), answer.at());
            Ok(answer.checked()?.text(1))
        }
    }
}

pub mod kv {
    #[link(wasm_import_module = "countersign:skill/kv@0.1.0")]
    extern "C" {
        #[link_name = "get"]
        fn host_get(key: *const u8, key_length: usize, answer: *mut usize);
        #[link_name = "set"]
        fn host_set(key: *const u8, key_length: usize, value: *const u8, value_length: usize, answer: *mut usize);
        #[link_name = "delete"]
        fn host_delete(key: *const u8, key_length: usize, answer: *mut usize);
        #[link_name = "keys"]
        fn host_keys(prefix: *const u8, prefix_length: usize, answer: *mut usize);
    }

    pub fn get(key: &str) -> Result<Option<Vec<u8>>, String> {
        let mut answer = super::Area::NEW;
        unsafe {
            host_get(key.as_ptr(), key.len(), answer.at());
            let answer = answer.checked()?;
            Ok(match answer.0[1] as u8 {
                0 => None,
                _ => Some(answer.bytes(2)),
            })
        }
    }

    pub fn set(key: &str, value: &[u8]) -> Result<(), String> {
        let mut answer = super::Area::NEW;
        unsafe {
            host_set(key.as_ptr(), key.len(), value.as_ptr(), value.len(), answer.at());
            answer.checked().map(|_| ())
        }
    }

    pub fn delete(key: &str) -> Result<(), String> {
        let mut answer = super::Area::NEW;
        unsafe {
            host_delete(key.as_ptr(), key.len(), answer.at());
            answer.checked().map(|_| ())
        }
    }

    pub fn keys(prefix: &str) -> Result<Vec<String>, String> {
        let mut answer = super::Area::NEW;
        unsafe {
            host_keys(prefix.as_ptr(), prefix.len(), answer.at());
            let keys: Vec<[usize; 2]> = answer.checked()?.list(1);
            Ok(keys.into_iter().map(|[at, length]| super::text(at as *mut u8, length)).collect())
        }
    }
}

pub mod channel {
    #[link(wasm_import_module = "countersign:skill/channel@0.1.0")]
    extern "C" {
        #[link_name = "post"]
        fn host_post(channel: *const u8, channel_length: usize, text: *const u8, text_length: usize, answer: *mut usize);
    }

    pub fn post(channel: &str, text: &str) -> Result<(), String> {
        let mut answer = super::Area::NEW;
        unsafe {
            host_post(channel.as_ptr(), channel.len(), text.as_ptr(), text.len(), answer.at());
            answer.checked().map(|_| ())
        }
    }
}
