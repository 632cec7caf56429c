//! Heads: the words that decide about time stay, every other character becomes an `x`.

/// Fields whose names and values say how a message ends and what its sender waits for.
const KEPT: [&[u8]; 4] = [
    b"content-length",
    b"transfer-encoding",
    b"expect",
    b"connection",
];
/// Fields of which the name alone says that a store is spoken to.
const NAMED: [&[u8]; 3] = [b"x-amz-date", b"x-amz-content-sha256", b"x-amz-copy-source"];
/// Query parameters that name an operation.
const PARAMETERS: [&[u8]; 8] = [
    b"uploads",
    b"uploadId",
    b"partNumber",
    b"list-type",
    b"delete",
    b"X-Amz-Algorithm",
    b"X-Amz-Signature",
    b"AWSAccessKeyId",
];

/// Copies what may stay of the head at the start of `payload` into `masked`, which holds zeros; the body
/// stays zeros.
pub(super) fn keep(payload: &[u8], masked: &mut [u8]) {
    let mut at = 0;
    while at < payload.len() {
        let rest = &payload[at..];
        let end = rest.iter().position(|&byte| byte == b'\n');
        let line = &rest[..end.map_or(rest.len(), |end| end + 1)];
        let out = &mut masked[at..at + line.len()];
        if at == 0 {
            first_line(line, out);
        } else {
            field(line, out);
        }
        at += line.len();
        if matches!(line, b"\r\n" | b"\n") {
            return;
        }
    }
}

/// `PUT /xxx/xxx?partNumber=x HTTP/1.1` or `HTTP/1.1 200 xx`.
fn first_line(line: &[u8], out: &mut [u8]) {
    hide(line, out);
    let word = |from: usize| {
        let rest = &line[from..];
        from + rest
            .iter()
            .position(|&byte| byte == b' ')
            .unwrap_or(rest.len())
    };
    let first = word(0);
    let second = word((first + 1).min(line.len()));
    out[..first].copy_from_slice(&line[..first]);
    if line.starts_with(b"HTTP/") {
        out[first..second].copy_from_slice(&line[first..second]);
        return;
    }
    target(&line[first..second], &mut out[first..second]);
    if line[second..].starts_with(b" HTTP/1.") {
        out[second..].copy_from_slice(&line[second..]);
    }
}

/// The shape of a path, and the names of parameters that name an operation.
fn target(target: &[u8], out: &mut [u8]) {
    for (byte, out) in target.iter().zip(out.iter_mut()) {
        if matches!(byte, b'/' | b'?' | b'&' | b'=') {
            *out = *byte;
        }
    }
    let Some(query) = target.iter().position(|&byte| byte == b'?') else {
        return;
    };
    let mut at = query + 1;
    for parameter in target[query + 1..].split(|&byte| byte == b'&') {
        let name = parameter
            .split(|&byte| byte == b'=')
            .next()
            .unwrap_or_default();
        if PARAMETERS.contains(&name) {
            out[at..at + name.len()].copy_from_slice(name);
        }
        at += parameter.len() + 1;
    }
}

fn field(line: &[u8], out: &mut [u8]) {
    hide(line, out);
    let Some(colon) = line.iter().position(|&byte| byte == b':') else {
        return;
    };
    let name = &line[..colon];
    let is = |other: &&[u8]| name.eq_ignore_ascii_case(other);
    if KEPT.iter().any(is) {
        out.copy_from_slice(line);
    } else if NAMED.iter().any(is) {
        out[..=colon].copy_from_slice(&line[..=colon]);
    }
}

/// Everything but line ends and spaces.
fn hide(line: &[u8], out: &mut [u8]) {
    for (byte, out) in line.iter().zip(out) {
        *out = if matches!(byte, b'\r' | b'\n' | b' ') {
            *byte
        } else {
            b'x'
        };
    }
}
