//! `longhaul explain how-to-capture`: the right command for the host where the capture has to be made.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::process::ExitCode;

use super::arguments::{CapturePlace, HowToCapture};
use crate::failure::Failure;
use crate::output;

/// Bytes kept of each packet: headers with all options, and the request line or TLS hello behind them.
const SNAPLEN: u32 = 256;

pub(crate) fn run(arguments: &HowToCapture) -> Result<ExitCode, Failure> {
    output::data(&recipe(arguments))?;
    Ok(ExitCode::SUCCESS)
}

/// What to type, and what has to be known about it, one screen.
fn recipe(asked: &HowToCapture) -> String {
    let mut text = match asked.on {
        CapturePlace::Linux => linux(asked),
        CapturePlace::Macos => macos(asked),
        CapturePlace::Windows => windows(asked),
        CapturePlace::Bigip => big_ip(asked),
        CapturePlace::Aix => aix(asked),
    };
    let files = match asked.on {
        // tcpdump -C and -W number the files.
        CapturePlace::Linux => "'slow.pcap*'",
        CapturePlace::Macos | CapturePlace::Windows | CapturePlace::Bigip | CapturePlace::Aix => {
            "slow.pcap"
        }
    };
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\n\
         Then:\n  \
           longhaul explain {files}\n\
         \n\
         Start it before the connection opens: options and window scale stand only in the SYN.\n\
         Capture on the sending host if you can: only there the moments of sending are true.\n\
         {SNAPLEN} bytes per packet hold all headers and the request line; with cookies or tokens in the\n\
         request, keep 96 instead.\n"
    );
    text
}

fn linux(asked: &HowToCapture) -> String {
    let interface = asked.interface.as_deref().unwrap_or("any");
    let filter = filter(asked);
    format!(
        "On Linux, as root (files of 200 MB, the last ten are kept; stop with Ctrl-C):\n  \
           tcpdump -n -i {interface} -s {SNAPLEN} -C 200 -W 10 -w slow.pcap {filter}\n\
         Inside a container or pod, from its host:\n  \
           nsenter -t PID -n tcpdump -n -i any -s {SNAPLEN} -w slow.pcap {filter}\n\
         With -C and -W the files are slow.pcap0, slow.pcap1 and so on; they are put in order when read.\n"
    )
}

fn macos(asked: &HowToCapture) -> String {
    let interface = asked.interface.as_deref().unwrap_or("en0");
    let filter = filter(asked);
    format!(
        "On macOS (stop with Ctrl-C):\n  \
           sudo tcpdump -n -i {interface} -s {SNAPLEN} -w slow.pcap {filter}\n"
    )
}

fn windows(asked: &HowToCapture) -> String {
    // Neither resolves names.
    let host = asked.host.as_ref().map(|host| match host.parse() {
        Ok(IpAddr::V4(address)) => (address.to_string(), "IPv4"),
        Ok(IpAddr::V6(address)) => (address.to_string(), "IPv6"),
        Err(_) => (format!("ADDRESS-OF-{host}"), "IPv4"),
    });
    let mut packet = String::new();
    if let Some((address, _)) = &host {
        let _ = write!(packet, " -i {address}");
    }
    packet.push_str(" -t TCP");
    if let Some(port) = asked.port {
        let _ = write!(packet, " -p {port}");
    }
    let address = host
        .map(|(address, version)| format!(" {version}.Address={address}"))
        .unwrap_or_default();
    format!(
        "On Windows 10 2004, Server 2019 and later, in an administrator's prompt:\n  \
           pktmon filter remove\n  \
           pktmon filter add longhaul{packet}\n  \
           pktmon start --capture --comp nics --pkt-size {SNAPLEN} --file-name slow.etl\n  \
           (do the slow thing)\n  \
           pktmon stop\n  \
           pktmon etl2pcap slow.etl --out slow.pcap      (older: pktmon pcapng slow.etl -o slow.pcap)\n\
         Before that:\n  \
           netsh trace start capture=yes tracefile=slow.etl maxsize=512{address}\n  \
           netsh trace stop\n  \
           etl2pcapng slow.etl slow.pcap                 (from github.com/microsoft/etl2pcapng)\n\
         Without `--comp nics` every layer of the stack adds a copy of each packet.\n"
    )
}

fn big_ip(asked: &HowToCapture) -> String {
    let interface = asked.interface.as_deref().unwrap_or("0.0");
    let filter = filter(asked);
    format!(
        "On BIG-IP, in bash (stop with Ctrl-C):\n  \
           tcpdump -n -i {interface}:nnnp -s 0 -w /var/tmp/slow.pcap {filter}\n\
         `:nnnp` adds the flow on the other side of the proxy, so that both sides are in one file; the\n\
         notes that it writes behind each packet need -s 0 and are passed over. A FastL4 virtual server\n\
         with hardware acceleration hides packets: set its PVA acceleration to none for the time.\n"
    )
}

fn aix(asked: &HowToCapture) -> String {
    let interface = asked.interface.as_deref().unwrap_or("en0");
    let filter = filter(asked);
    let mut flags = String::new();
    if let Some(host) = &asked.host {
        let _ = write!(flags, " -b -d {host}");
    }
    if let Some(port) = asked.port {
        let _ = write!(flags, " -p {port}");
    }
    format!(
        "On AIX, as root (stop with Ctrl-C):\n  \
           tcpdump -n -i {interface} -s {SNAPLEN} -w slow.pcap {filter}\n\
         Where tcpdump is not installed:\n  \
           startsrc -s iptrace -a \"-a -i {interface} -S {SNAPLEN}{flags} /tmp/slow.trc\"\n  \
           stopsrc -s iptrace\n  \
           editcap -F pcap slow.trc slow.pcap            (Wireshark's editcap, on any host)\n\
         With large send offload the adapter cuts segments behind the capture; that is recognised.\n"
    )
}

/// In tcpdump's language, quoted for a shell; the remote session that runs it is left out.
fn filter(asked: &HowToCapture) -> String {
    let mut terms = vec!["tcp".to_owned()];
    if let Some(host) = &asked.host {
        terms.push(format!("host {host}"));
    }
    match asked.port {
        Some(port) => terms.push(format!("port {port}")),
        None => terms.push("not port 22".to_owned()),
    }
    format!("'{}'", terms.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(on: CapturePlace) -> HowToCapture {
        HowToCapture {
            on,
            host: Some("203.0.113.7".to_owned()),
            port: Some(443),
            interface: None,
        }
    }

    #[test]
    fn every_recipe_names_the_host_and_port_and_fits_a_terminal() {
        for on in [
            CapturePlace::Linux,
            CapturePlace::Macos,
            CapturePlace::Windows,
            CapturePlace::Bigip,
            CapturePlace::Aix,
        ] {
            let text = recipe(&asked(on));
            assert!(
                text.contains("203.0.113.7") && text.contains("443"),
                "{text}"
            );
            assert!(text.lines().all(|line| line.len() <= 100), "{text}");
            assert!(text.lines().count() < 24, "{text}");
        }
    }

    #[test]
    fn windows_gets_addresses_of_either_family_and_is_told_where_a_name_stands() {
        let said = |host: &str| {
            let mut asked = asked(CapturePlace::Windows);
            asked.host = Some(host.to_owned());
            recipe(&asked)
        };
        assert!(said("203.0.113.7").contains("IPv4.Address=203.0.113.7"));
        assert!(said("2001:db8::7").contains("IPv6.Address=2001:db8::7"));
        let name = said("store.example");
        assert!(
            name.contains("-i ADDRESS-OF-store.example -t TCP"),
            "{name}"
        );
    }

    #[test]
    fn rotated_files_are_read_by_their_pattern() {
        let text = recipe(&asked(CapturePlace::Linux));
        assert!(text.contains("longhaul explain 'slow.pcap*'"), "{text}");
    }

    #[test]
    fn without_a_port_the_remote_session_is_left_out() {
        let mut asked = asked(CapturePlace::Linux);
        asked.port = None;
        assert!(recipe(&asked).contains("'tcp and host 203.0.113.7 and not port 22'"));
    }
}
