//! Everything that passes the client, as it passes.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use mrtr_client::{HttpTransport, ResponseBody, Transport, TransportFuture};

/// A transport that notes requests and responses, heads and bodies.
#[derive(Debug, Clone)]
pub(crate) struct Recording {
    inner: HttpTransport,
    passed: Arc<Mutex<String>>,
}

impl Recording {
    pub(crate) fn new() -> Self {
        Self {
            inner: HttpTransport::new().unwrap(),
            passed: Arc::default(),
        }
    }

    /// How often a text passed as it is.
    pub(crate) fn plain(&self, text: &str) -> usize {
        self.passed.lock().unwrap().matches(text).count()
    }

    /// How often it passed inside something in base64, as in a state, wherever in it it stands.
    pub(crate) fn in_base64(&self, text: &str) -> usize {
        let passed = self.passed.lock().unwrap();
        let mut forms: Vec<String> = (0..3)
            .flat_map(|before| {
                let shifted = [&b"\0\0"[..before], text.as_bytes()].concat();
                // The characters that are made of this text's bits alone.
                let own = (before * 8).div_ceil(6)..shifted.len() * 8 / 6;
                [STANDARD_NO_PAD, URL_SAFE_NO_PAD]
                    .map(|alphabet| alphabet.encode(&shifted)[own.clone()].to_owned())
            })
            .collect();
        forms.dedup();
        forms.iter().map(|form| passed.matches(form).count()).sum()
    }

    fn note(&self, head: &impl std::fmt::Debug, headers: &http::HeaderMap, body: &[u8]) {
        let mut passed = self.passed.lock().unwrap();
        passed.push_str(&format!("{head:?}\n"));
        for (name, value) in headers {
            let value = String::from_utf8_lossy(value.as_bytes());
            passed.push_str(&format!("{name}: {value}\n"));
        }
        passed.push_str(&String::from_utf8_lossy(body));
        passed.push('\n');
    }
}

impl Transport for Recording {
    fn send(&self, request: http::Request<Bytes>) -> TransportFuture<'_> {
        self.note(request.uri(), request.headers(), request.body());
        Box::pin(async move {
            let (head, mut body) = self.inner.send(request).await?.into_parts();
            let mut bytes = Vec::new();
            while let Some(chunk) = body.chunk().await? {
                bytes.extend_from_slice(&chunk);
            }
            self.note(&head.status, &head.headers, &bytes);
            let body = ResponseBody::from_bytes(bytes.into());
            Ok(http::Response::from_parts(head, body))
        })
    }
}
