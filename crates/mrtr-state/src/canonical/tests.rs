use super::*;

fn bytes(text: &str) -> Result<Vec<u8>, DigestError> {
    let mut bytes = Vec::new();
    walk_json(text, &mut |piece| bytes.extend_from_slice(piece))?;
    Ok(bytes)
}
