//! What single fields of a path may say, in the words of a scenario file.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use link::{
    CoDel, Discipline, Distribution, GilbertElliott, InvalidTrace, Jitter, LossSpec, Order, Outage,
    Policer, QueueLimit, Red, Trace,
};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use units::{Bytes, LossRate, Rate, Span};

/// A queue's size: bytes (`"256 KiB"`), packets (`"100 packets"`) or a multiple of rate x RTT
/// (`"0.5 BDP"`, in steps of a thousandth).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QueueSize {
    /// IP bytes.
    Bytes(Bytes),
    /// Packets of any size.
    Packets(u64),
    /// Thousandths of the bandwidth-delay product.
    Product(u32),
}

/// `"droptail"`, `"codel"`, `"red"`, or a table: `{ codel = { ecn = true } }`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DisciplineSetting {
    /// All in until it is full.
    DropTail,
    /// `CoDel`.
    CoDel(CoDelSetting),
    /// RED.
    Red(RedSetting),
}

/// Parameters of `CoDel`; the RFC's where absent.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CoDelSetting {
    /// Acceptable standing delay, 5 ms.
    pub target: Option<Span>,
    /// How long it has to stand, 100 ms.
    pub interval: Option<Span>,
    /// Mark instead of dropping where a packet permits it.
    #[serde(default)]
    pub ecn: bool,
}

/// Parameters of RED; those of `tc-red(8)`'s advice and of Floyd's where absent.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RedSetting {
    /// Average length from which packets are dropped: a third of `max`.
    pub min: Option<QueueSize>,
    /// Average length at which `probability` is reached: a quarter of the queue.
    pub max: Option<QueueSize>,
    /// At `max`: 10 %.
    pub probability: Option<LossRate>,
    /// Of a new sample in the average: 0.2 %.
    pub weight: Option<LossRate>,
    /// Whether the probability rises on above `max`: yes.
    pub gentle: Option<bool>,
    /// Mark instead of dropping where a packet permits it.
    #[serde(default)]
    pub ecn: bool,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PolicerSetting {
    /// At which tokens come.
    pub rate: Rate,
    /// How many the bucket holds.
    pub burst: Bytes,
}

/// A trace in Mahimahi's format: the file's name, and what the caller has read from it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(from = "String")]
pub struct TraceFile {
    name: String,
    content: Option<Trace>,
}

/// Jitter: `{ uniform = "5 ms" }`, `{ normal = { mean = "5 ms", deviation = "1 ms" } }` or
/// `{ pareto = "2 ms" }`, with `correlation = "25 %"` if wanted.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(try_from = "JitterTable")]
pub struct JitterSetting(Jitter);

/// Whether packets may overtake each other.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum OrderSetting {
    /// They wait for each other.
    Kept,
    /// They do.
    Free,
}

/// Reordering: `{ share = "1 %", late = "5 ms" }`, or `early`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(try_from = "ReorderTable")]
pub struct ReorderSetting {
    pub(super) share: LossRate,
    pub(super) shift: ShiftSetting,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ShiftSetting {
    Late(Span),
    Early(Span),
}

/// Loss: a share (`"0.5 %"`), `{ gilbert-elliott = { loss = "1 %", burst = 5 } }`, `{ every = 1000 }` or
/// `{ packets = [17, 18] }` (numbers from 0).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LossSetting(LossSpec);

/// What an outage does with packets.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum OutageSetting {
    /// They are gone.
    Drop,
    /// They wait in the queue.
    Hold,
}

/// A field that is a text where that is enough, and a table otherwise.
trait TextOrTable: Sized {
    type Table: for<'de> Deserialize<'de>;
    const EXPECTED: &'static str;
    fn from_text(text: &str) -> Option<Self>;
    fn from_table(table: Self::Table) -> Option<Self>;
}

struct TextOrTableVisitor<T>(PhantomData<T>);

impl<'de, T: TextOrTable> Visitor<'de> for TextOrTableVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).ok_or_else(|| E::custom(format!("`{text}` is not {}", T::EXPECTED)))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        let table = T::Table::deserialize(MapAccessDeserializer::new(map))?;
        T::from_table(table).ok_or_else(|| A::Error::custom(format!("this is not {}", T::EXPECTED)))
    }
}

// === impl QueueSize ===

impl QueueSize {
    /// As the model limits it, where `product` is the bandwidth-delay product.
    pub(super) fn limit(self, product: Bytes) -> QueueLimit {
        match self {
            Self::Bytes(bytes) => QueueLimit::Bytes(bytes),
            Self::Packets(packets) => QueueLimit::Packets(packets),
            Self::Product(thousandths) => {
                let bytes = u128::from(product.get()) * u128::from(thousandths) / 1_000;
                QueueLimit::Bytes(Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)))
            }
        }
    }
}

impl FromStr for QueueSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is not a queue's size, such as `256 KiB`, `100 packets` or `0.5 BDP`")
        };
        if let Some(number) = text.trim().strip_suffix("BDP") {
            // A share has nine decimals; three are enough, and more than one in whole is wanted.
            let number = number.trim_end();
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            let whole: u32 = whole.parse().map_err(|_| wrong())?;
            let digits = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
            let thousandths: u32 = format!("{fraction:0<3}").parse().map_err(|_| wrong())?;
            let sum = whole
                .checked_mul(1_000)
                .and_then(|whole| whole.checked_add(thousandths));
            return sum.filter(|_| digits).map(Self::Product).ok_or_else(wrong);
        }
        if let Some(number) = text.trim().strip_suffix("packets") {
            return number
                .trim_end()
                .parse()
                .map(Self::Packets)
                .map_err(|_| wrong());
        }
        text.parse().map(Self::Bytes).map_err(|_| wrong())
    }
}

impl fmt::Display for QueueSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Packets(packets) => write!(f, "{packets} packets"),
            Self::Product(thousandths) => {
                let (whole, rest) = (thousandths / 1_000, thousandths % 1_000);
                let text = format!("{whole}.{rest:03}");
                write!(
                    f,
                    "{} BDP",
                    text.trim_end_matches('0').trim_end_matches('.')
                )
            }
        }
    }
}

impl<'de> Deserialize<'de> for QueueSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = QueueSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a queue's size, such as \"256 KiB\", \"100 packets\" or \"0.5 BDP\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<QueueSize, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}

// === impl DisciplineSetting ===

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct DisciplineTable {
    codel: Option<CoDelSetting>,
    red: Option<RedSetting>,
}

impl TextOrTable for DisciplineSetting {
    type Table = DisciplineTable;
    const EXPECTED: &'static str =
        "a discipline: \"droptail\", \"codel\", \"red\", { codel = {..} } or { red = {..} }";

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "droptail" => Some(Self::DropTail),
            "codel" => Some(Self::CoDel(CoDelSetting::default())),
            "red" => Some(Self::Red(RedSetting::default())),
            _ => None,
        }
    }

    fn from_table(table: DisciplineTable) -> Option<Self> {
        match (table.codel, table.red) {
            (Some(codel), None) => Some(Self::CoDel(codel)),
            (None, Some(red)) => Some(Self::Red(red)),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for DisciplineSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTableVisitor(PhantomData))
    }
}

impl DisciplineSetting {
    /// As the model has it, in a queue of this size.
    pub(super) fn of_queue(self, queue: QueueLimit, product: Bytes) -> Discipline {
        match self {
            Self::DropTail => Discipline::DropTail,
            Self::CoDel(CoDelSetting {
                target,
                interval,
                ecn,
            }) => Discipline::CoDel(CoDel {
                target: target.map_or_else(|| CoDel::default().target, Span::get),
                interval: interval.map_or_else(|| CoDel::default().interval, Span::get),
                ecn,
            }),
            Self::Red(red) => {
                let max = red
                    .max
                    .map_or_else(|| part(queue, 4), |max| max.limit(product));
                Discipline::Red(Red {
                    min: red
                        .min
                        .map_or_else(|| part(max, 3), |min| min.limit(product)),
                    max,
                    probability: red.probability.unwrap_or(TENTH),
                    weight: red.weight.unwrap_or(FLOYD_WEIGHT),
                    gentle: red.gentle.unwrap_or(true),
                    ecn: red.ecn,
                })
            }
        }
    }
}

/// Floyd's advice for `max_p` and for `w_q` ("RED: Discussions of Setting Parameters", 1997).
const TENTH: LossRate = share_of(100_000_000);
const FLOYD_WEIGHT: LossRate = share_of(2_000_000);

const fn share_of(billionths: u32) -> LossRate {
    match LossRate::per_billion(billionths) {
        Some(share) => share,
        None => LossRate::ONE,
    }
}

fn part(limit: QueueLimit, divisor: u64) -> QueueLimit {
    match limit {
        QueueLimit::Bytes(bytes) => QueueLimit::Bytes(Bytes::new(bytes.get() / divisor)),
        QueueLimit::Packets(packets) => QueueLimit::Packets(packets / divisor),
    }
}

// === impl PolicerSetting ===

impl From<PolicerSetting> for Policer {
    fn from(PolicerSetting { rate, burst }: PolicerSetting) -> Self {
        Self { rate, burst }
    }
}

// === impl TraceFile ===

impl TraceFile {
    /// The file's name, relative to the scenario's.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes the file's text.
    pub fn read(&mut self, text: &str) -> Result<(), InvalidTrace> {
        self.content = Some(Trace::parse(text)?);
        Ok(())
    }

    /// What was read.
    #[must_use]
    pub const fn content(&self) -> Option<&Trace> {
        self.content.as_ref()
    }
}

impl From<String> for TraceFile {
    fn from(name: String) -> Self {
        Self {
            name,
            content: None,
        }
    }
}

// === impl JitterSetting ===

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct JitterTable {
    uniform: Option<Span>,
    normal: Option<NormalTable>,
    pareto: Option<Span>,
    #[serde(default)]
    correlation: LossRate,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct NormalTable {
    mean: Span,
    deviation: Span,
}

impl TryFrom<JitterTable> for JitterSetting {
    type Error = &'static str;

    fn try_from(table: JitterTable) -> Result<Self, &'static str> {
        let distribution = match (table.uniform, table.normal, table.pareto) {
            (Some(most), None, None) => Distribution::Uniform { most: most.get() },
            (None, Some(normal), None) => Distribution::Normal {
                mean: normal.mean.get(),
                deviation: normal.deviation.get(),
            },
            (None, None, Some(mean)) => Distribution::Pareto { mean: mean.get() },
            _ => return Err("jitter wants one of `uniform`, `normal` and `pareto`"),
        };
        Ok(Self(Jitter {
            distribution,
            correlation: table.correlation,
        }))
    }
}

impl From<JitterSetting> for Jitter {
    fn from(setting: JitterSetting) -> Self {
        setting.0
    }
}

// === impl OrderSetting ===

impl From<OrderSetting> for Order {
    fn from(setting: OrderSetting) -> Self {
        match setting {
            OrderSetting::Kept => Self::Kept,
            OrderSetting::Free => Self::Free,
        }
    }
}

// === impl ReorderSetting ===

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ReorderTable {
    share: LossRate,
    late: Option<Span>,
    early: Option<Span>,
}

impl TryFrom<ReorderTable> for ReorderSetting {
    type Error = &'static str;

    fn try_from(table: ReorderTable) -> Result<Self, &'static str> {
        let shift = match (table.late, table.early) {
            (Some(by), None) => ShiftSetting::Late(by),
            (None, Some(by)) => ShiftSetting::Early(by),
            _ => return Err("reordering wants one of `late` and `early`"),
        };
        Ok(Self {
            share: table.share,
            shift,
        })
    }
}

// === impl LossSetting ===

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct LossTable {
    gilbert_elliott: Option<ChainTable>,
    every: Option<u64>,
    packets: Option<Vec<u64>>,
}

/// Either its means, or its probabilities.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ChainTable {
    loss: Option<LossRate>,
    burst: Option<u32>,
    to_bad: Option<LossRate>,
    to_good: Option<LossRate>,
    loss_in_bad: Option<LossRate>,
    loss_in_good: Option<LossRate>,
}

impl TextOrTable for LossSetting {
    type Table = LossTable;
    const EXPECTED: &'static str = "loss: a share such as \"0.5 %\", { every = 1000 }, \
         { packets = [17, 18] }, { gilbert-elliott = { loss = \"1 %\", burst = 5 } } or \
         { gilbert-elliott = { to-bad = \"0.2 %\", to-good = \"20 %\" } }";

    fn from_text(text: &str) -> Option<Self> {
        let share: LossRate = text.parse().ok()?;
        Some(Self(if share == LossRate::ZERO {
            LossSpec::None
        } else {
            LossSpec::Bernoulli(share)
        }))
    }

    fn from_table(table: LossTable) -> Option<Self> {
        let loss = match (table.gilbert_elliott, table.every, table.packets) {
            (Some(chain), None, None) => LossSpec::GilbertElliott(chain.model()?),
            (None, Some(period), None) => LossSpec::Every(period),
            (None, None, Some(list)) => LossSpec::Listed(list),
            _ => return None,
        };
        Some(Self(loss))
    }
}

impl ChainTable {
    fn model(self) -> Option<GilbertElliott> {
        let model = match (self.loss, self.burst, self.to_bad, self.to_good) {
            (Some(loss), Some(burst), None, None) => {
                if self.loss_in_bad.is_some() || self.loss_in_good.is_some() {
                    return None;
                }
                return GilbertElliott::from_means(loss, burst);
            }
            (None, None, Some(to_bad), Some(to_good)) => GilbertElliott {
                to_bad,
                to_good,
                loss_in_bad: self.loss_in_bad.unwrap_or(LossRate::ONE),
                loss_in_good: self.loss_in_good.unwrap_or(LossRate::ZERO),
            },
            _ => return None,
        };
        Some(model)
    }
}

impl<'de> Deserialize<'de> for LossSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTableVisitor(PhantomData))
    }
}

impl From<LossSetting> for LossSpec {
    fn from(setting: LossSetting) -> Self {
        setting.0
    }
}

impl fmt::Display for LossSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            LossSpec::None => LossRate::ZERO.fmt(f),
            LossSpec::Bernoulli(share) => share.fmt(f),
            LossSpec::GilbertElliott(_) => f.write_str("in bursts"),
            LossSpec::Every(period) => write!(f, "of every {period}th packet"),
            LossSpec::Listed(list) => write!(f, "of {} packets", list.len()),
        }
    }
}

// === impl OutageSetting ===

impl From<OutageSetting> for Outage {
    fn from(setting: OutageSetting) -> Self {
        match setting {
            OutageSetting::Drop => Self::Drop,
            OutageSetting::Hold => Self::Hold,
        }
    }
}
