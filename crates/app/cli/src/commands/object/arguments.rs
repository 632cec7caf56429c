//! The command line of `longhaul object`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

/// Work on objects that a gateway has encrypted (see docs/object-format.md).
#[derive(Debug, Args)]
pub(crate) struct Object {
    #[command(subcommand)]
    pub(crate) command: ObjectCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ObjectCommand {
    Decrypt(ObjectDecrypt),
    Rewrap(ObjectRewrap),
}

/// Print an object's envelope under a new wrapping key; its stored bytes stay as they are.
///
/// The object's own key is unwrapped and wrapped again, and nothing of the object is read. The new envelope takes effect
/// when the store has it in place of the old one: as the object's metadata `longhaul`, by a copy of the object onto itself.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("new").required(true).args(["new_key_file", "new_key_env", "new_key_command"])),
    after_help = "\
Example; the copy takes place within the store, and has to repeat whatever other metadata the object has:
  aws s3api head-object --bucket prod-photos --key cat.jpg > head.json
  new=$(longhaul object rewrap --bucket prod-photos --key cat.jpg --head head.json \\
    --key-file old.key --new-key-file new.key)
  aws s3api copy-object --bucket prod-photos --key cat.jpg --copy-source prod-photos/cat.jpg \\
    --metadata-directive REPLACE --metadata longhaul=$new --content-type image/jpeg"
)]
pub(crate) struct ObjectRewrap {
    #[command(flatten)]
    pub(crate) sealed: Sealed,

    /// A file with the new wrapping key.
    #[arg(long, value_name = "FILE")]
    pub(crate) new_key_file: Option<PathBuf>,

    /// An environment variable with it.
    #[arg(long, value_name = "NAME")]
    pub(crate) new_key_env: Option<String>,

    /// A program and its arguments that print it; ends with `;` where more options follow.
    #[arg(long, value_name = "COMMAND", num_args = 1.., value_terminator = ";")]
    pub(crate) new_key_command: Vec<String>,
}

/// Which object it is, and what opens its envelope.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("whence").required(true).args(["envelope", "head"])),
    group(ArgGroup::new("secret").required(true).args(["key_file", "key_env", "key_command"])),
)]
pub(crate) struct Sealed {
    /// The bucket, by the store's name.
    #[arg(long, value_name = "NAME")]
    pub(crate) bucket: String,

    /// The object's key.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: String,

    /// The object's metadata `longhaul`.
    #[arg(long, value_name = "TEXT")]
    pub(crate) envelope: Option<String>,

    /// What `aws s3api get-object` or `head-object` printed; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) head: Option<PathBuf>,

    /// A file with the wrapping key: 32 bytes, or their hexadecimal or base64 text.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// An environment variable with it.
    #[arg(long, value_name = "NAME")]
    pub(crate) key_env: Option<String>,

    /// A program and its arguments that print it; ends with `;` where more options follow.
    #[arg(long, value_name = "COMMAND", num_args = 1.., value_terminator = ";")]
    pub(crate) key_command: Vec<String>,
}

/// Decrypt an object as it is stored, without the gateway that wrote it.
///
/// Every chunk is checked before it is written. What the store has changed, cut, moved or taken from another object
/// ends the command with code 1.
#[derive(Debug, Args)]
#[command(after_help = "\
Example, past the gateway and with the store's own name of the bucket:
  aws s3api get-object --bucket prod-photos --key cat.jpg stored.bin > head.json
  longhaul object decrypt stored.bin cat.jpg --bucket prod-photos --key cat.jpg \\
    --head head.json --key-file /etc/longhaul/photos.key")]
pub(crate) struct ObjectDecrypt {
    /// The object as it is stored.
    #[arg(value_name = "STORED")]
    pub(crate) stored: PathBuf,

    /// Where the plaintext goes; default: standard output.
    #[arg(value_name = "OUTPUT")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) sealed: Sealed,
}
