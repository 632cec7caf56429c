//! Descriptors on the way from one process to another: a pair of sockets that keep messages apart, over which open
//! files travel as `SCM_RIGHTS` (unix(7)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType,
};

/// The most descriptors that travel with one message here.
const MOST: usize = 4;

/// The longest message in bytes; what is longer is refused by [`send`], and by [`receive`].
pub const LONGEST: usize = 4096;

/// Two connected streams whose buffers hold little, about `buffer` bytes each way: what lies there nobody can overtake.
pub fn streams(buffer: usize) -> io::Result<(UnixStream, UnixStream)> {
    let (one, other) = UnixStream::pair()?;
    for stream in [&one, &other] {
        stream.set_nonblocking(true)?;
        rustix::net::sockopt::set_socket_send_buffer_size(stream, buffer)?;
    }
    Ok((one, other))
}

/// Ends a connection in both directions, for every process that has it.
pub fn end(connection: impl AsFd) -> io::Result<()> {
    rustix::net::shutdown(connection, Shutdown::Both).map_err(io::Error::from)
}

/// Two connected sockets, one for each process. Neither blocks, and no program that is started gets either unless it
/// is passed on.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Messages stay apart, and the end of the other process is seen.
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(io::Error::from)
}

/// Sends a message and copies of `descriptors`. `WouldBlock` where the other process has many to read.
pub fn send(socket: impl AsFd, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let too_much = || io::Error::from(io::ErrorKind::InvalidInput);
    if message.is_empty() || message.len() > LONGEST || descriptors.len() > MOST {
        return Err(too_much());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(too_much());
    }
    // A process that has ended is an error here and no signal.
    let flags = SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, &[IoSlice::new(message)], &mut control, flags)?;
    Ok(())
}

/// The next message and what came with it; `None` where the other process has ended, or closed its socket.
/// `WouldBlock` where there is none yet.
pub fn receive(socket: impl AsFd) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut message = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = {
        let mut slices = [IoSliceMut::new(&mut message)];
        rustix::net::recvmsg(socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)?
    };
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = part {
            descriptors.extend(passed);
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    if received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a message or its descriptors were cut off",
        ));
    }
    message.truncate(received.bytes);
    Ok(Some((message, descriptors)))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn a_descriptor_arrives_with_its_message_and_is_the_same_file() {
        let (here, there) = pair().unwrap();
        assert_eq!(
            receive(&there).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        let (read, write) = rustix::pipe::pipe().unwrap();
        send(&here, b"a pipe", &[write.as_fd()]).unwrap();
        send(&here, b"nothing", &[]).unwrap();
        drop(write);
        let (message, mut descriptors) = receive(&there).unwrap().unwrap();
        assert_eq!(message, b"a pipe");
        File::from(descriptors.remove(0)).write_all(b"x").unwrap();
        let mut text = String::new();
        File::from(read).read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        let (message, descriptors) = receive(&there).unwrap().unwrap();
        assert_eq!((&*message, descriptors.len()), (&b"nothing"[..], 0));
        drop(here);
        assert!(receive(&there).unwrap().is_none(), "the other end is gone");
    }

    #[test]
    fn what_is_too_long_or_too_many_is_refused_and_whoever_has_gone_is_an_error() {
        let (here, there) = pair().unwrap();
        let refused = |message: &[u8], count: usize| {
            let files = vec![here.as_fd(); count];
            send(&here, message, &files).unwrap_err().kind()
        };
        assert_eq!(refused(&[0; LONGEST + 1], 0), io::ErrorKind::InvalidInput);
        assert_eq!(refused(b"", 1), io::ErrorKind::InvalidInput);
        assert_eq!(refused(b"five", MOST + 1), io::ErrorKind::InvalidInput);
        drop(there);
        assert_eq!(refused(b"one", 1), io::ErrorKind::BrokenPipe);
    }
}
