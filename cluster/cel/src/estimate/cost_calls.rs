//! What calls cost (google/cel-go v0.26 `checker/cost.go`, `ext/sets.go`, `ext/lists.go`; kubernetes/kubernetes v1.35
//! `staging/src/k8s.io/apiserver/pkg/cel/library/cost.go`).

use kube_cel::cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};

use crate::estimate::cost::{PATTERN_FACTOR, Path, TEXT_FACTOR};
use crate::estimate::range::Range;
use crate::estimate::sizes::Sizes;
use crate::typing::types::Type;

const ONE: Range = Range::fixed(1);
/// It allows for two checks in one expression.
const AUTHORIZATION_COST: Range = Range::fixed(350_000);
/// An address has four or sixteen bytes.
const ADDRESS_SIZE: Range = Range { min: 4, max: 16 };
/// The longest pattern of a named format, in characters.
const FORMAT_PATTERN_MAX: f64 = 128.0;
/// The longest named format, in characters.
const FORMAT_SIZE_MAX: u64 = 64;
/// What a new list costs.
const LIST_COST: Range = Range::fixed(10);

/// An argument of a call, or its target.
pub(crate) struct Argument<'n, 's> {
    pub(crate) path: Path,
    pub(crate) of: Type<'s>,
    pub(crate) node: Option<&'n IdedExpr>,
    pub(crate) size: Option<Range>,
}

impl Argument<'_, '_> {
    pub(crate) fn size_or_unknown(&self) -> Range {
        self.size.unwrap_or(Range::UNKNOWN)
    }

    /// The literal as a number of elements.
    fn count(&self) -> Option<u64> {
        self.number().map(|number| u64::try_from(number).unwrap_or(0))
    }

    /// The whole number, if the argument is a literal.
    fn number(&self) -> Option<i64> {
        match &self.node?.expr {
            Expr::Literal(LiteralValue::Int(number)) => Some(*number.inner()),
            _ => None,
        }
    }
}

/// A call of one overload of a function.
pub(crate) struct Call<'c, 'n, 's> {
    pub(crate) function: &'c str,
    pub(crate) overload: &'c str,
    pub(crate) target: Option<&'c Argument<'n, 's>>,
    pub(crate) args: &'c [Argument<'n, 's>],
    pub(crate) known: &'c Sizes<'s>,
}

/// What it costs, and how large its result is if that is known.
type Cost = (Range, Option<Range>);

impl<'n, 's> Call<'_, 'n, 's> {
    /// Without what its arguments cost.
    pub(crate) fn cost(&self) -> Cost {
        let known = self.of_lists().or_else(|| self.of_library());
        let known = known.or_else(|| self.of_addresses()).or_else(|| self.of_equality());
        known.or_else(|| self.of_standard()).unwrap_or((ONE, None))
    }

    fn size(&self, argument: &Argument<'_, 's>) -> Range {
        let size = argument.size.or_else(|| self.known.at(&argument.path));
        size.unwrap_or(Range::UNKNOWN)
    }

    fn first(&self) -> Option<Range> {
        self.args.first().map(|argument| self.size(argument))
    }

    fn of_target(&self) -> Option<Range> {
        self.target.map(|target| self.size(target))
    }

    /// `ext.Sets` and `ext.Lists`.
    fn of_lists(&self) -> Option<Cost> {
        let made = |factor: f64, size: Range| Some((size.times(factor).plus(ONE).plus(LIST_COST), Some(size)));
        match (self.overload, self.args) {
            ("list_sets_contains_list" | "list_sets_intersects_list", [one, other]) => {
                Some((self.size(one).by(self.size(other)).times(1.0).plus(ONE), None))
            }
            ("list_sets_equivalent_list", [one, other]) => {
                Some((self.size(one).by(self.size(other)).times(2.0).plus(ONE), None))
            }
            ("list_slice", [from, to]) => {
                let start = from.count().unwrap_or(0);
                let end = to.count().unwrap_or(self.of_target()?.max);
                made(1.0, Range::fixed(end.wrapping_sub(start)))
            }
            ("lists_range", [count]) => made(1.0, Range::fixed(count.count().unwrap_or(u64::MAX))),
            ("list_reverse", []) => made(1.0, self.of_target()?),
            ("list_flatten", []) => made(1.0, self.of_target()?),
            ("list_flatten_int", [depth]) => made(depth.count().unwrap_or(u64::MAX) as f64, self.of_target()?),
            ("list_distinct", []) => {
                let size = self.of_target()?;
                made(2.0, size.by(size))
            }
            (overload, []) if overload.starts_with("list_") && overload.ends_with("_sort") => {
                let size = self.of_target()?;
                made(sort_factor(overload), size.by(size))
            }
            (overload, [keys]) if overload.ends_with("_sortByAssociatedKeys") => {
                let size = self.size(keys);
                made(sort_factor(overload), size.by(size))
            }
            _ => None,
        }
    }

    /// Kubernetes' own functions.
    fn of_library(&self) -> Option<Cost> {
        match self.function {
            "check" => Some((AUTHORIZATION_COST, None)),
            "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name" | "allowed"
            | "reason" | "error" | "errored" | "format.named" | "sign" | "asInteger" | "isInteger"
            | "asApproximateFloat" | "isGreaterThan" | "isLessThan" | "compareTo" | "add" | "sub" | "major"
            | "minor" | "patch" | "getScheme" | "getHostname" | "getHost" | "getPort" | "getEscapedPath"
            | "getQuery" => Some((ONE, None)),
            "fieldSelector" | "labelSelector" if self.args.len() == 1 => {
                let size = self.first()?;
                // A requirement needs two characters at least, and becomes a list and a struct.
                let requirements = size.times(0.5).times(50.0);
                Some((LIST_COST.plus(size.times(TEXT_FACTOR)).plus(requirements), None))
            }
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let target = self.target?;
                Some(match self.element(target) {
                    Some(element) => {
                        let each = match element.of {
                            Type::String | Type::Bytes => ONE.plus(self.size(&element).times(TEXT_FACTOR)),
                            _ => ONE,
                        };
                        (self.size(target).by(each), None)
                    }
                    None => (self.size(target).times(TEXT_FACTOR), None),
                })
            }
            "url" | "jsonpatch.escapeKey" if self.args.len() == 1 => {
                let size = self.first()?;
                Some((size.times(TEXT_FACTOR), Some(size)))
            }
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                let size = self.of_target()?;
                Some((size.times(TEXT_FACTOR), Some(size)))
            }
            "replace" => self.of_replace(),
            "split" => {
                let size = self.of_target()?;
                let most = self.args.get(1).and_then(Argument::number);
                // A negative number means all.
                let max = most.map_or(size.max, |most| most as u64);
                Some((size.times(2.0 * TEXT_FACTOR), Some(Range { min: 0, max })))
            }
            "join" => self.of_join(),
            "find" | "findAll" => {
                let (size, pattern) = (self.of_target()?, self.first()?);
                let cost = size.plus(ONE).times(TEXT_FACTOR).by(pattern.times(PATTERN_FACTOR));
                Some((cost, Some(Range { min: 0, max: size.max })))
            }
            "quantity" | "isQuantity" | "semver" | "isSemver" => Some((self.first()?.times(TEXT_FACTOR), None)),
            "validate" => {
                let cost = self.first()?.times(TEXT_FACTOR);
                Some((cost.times(FORMAT_PATTERN_MAX * PATTERN_FACTOR), None))
            }
            _ => None,
        }
    }

    fn of_replace(&self) -> Option<Cost> {
        let (size, [old, new, ..]) = (self.of_target()?, self.args) else {
            return None;
        };
        let (old, new) = (self.size(old), self.size(new));
        // How often one can stand in the other.
        let fits = |whole: u64, part: u64| (whole as f64 / part as f64).ceil() as u64;
        let (mut count, mut preserved) = (Range::fixed(0), Range::fixed(0));
        if old.min == 0 {
            // An empty text is found around every character.
            (count.max, preserved.max) = (size.max.saturating_add(1), size.max);
        } else if new.max <= old.min {
            preserved.max = size.max;
        } else {
            count.max = fits(size.max, old.min);
        }
        if old.max == 0 {
            (count.min, preserved.min) = (size.min.saturating_add(1), size.min);
        } else if old.max <= new.min {
            preserved.min = size.min;
        } else {
            count.min = fits(size.min, old.max);
        }
        let result = count.by(new).plus(preserved);
        Some((size.times(2.0 * TEXT_FACTOR), Some(result)))
    }

    fn of_join(&self) -> Option<Cost> {
        let target = self.target?;
        let count = self.size(target);
        let mut size = match self.element(target) {
            Some(element) => count.by(self.size(&element)),
            None => Range::fixed(0),
        };
        if let Some(separator) = self.first() {
            let between = Range {
                min: count.min.saturating_sub(1),
                max: count.max.saturating_sub(1),
            };
            size = size.plus(separator.by(between));
        }
        Some((size.times(TEXT_FACTOR), Some(size)))
    }

    /// What a list has in it.
    fn element(&self, list: &Argument<'_, 's>) -> Option<Argument<'n, 's>> {
        let of = list.of.items()?;
        let mut path = list.path.clone();
        if !path.is_empty() {
            path.push("@items".into());
        }
        Some(Argument {
            path,
            of,
            node: None,
            size: None,
        })
    }

    fn of_addresses(&self) -> Option<Cost> {
        let compared = || ADDRESS_SIZE.plus(ADDRESS_SIZE).times(TEXT_FACTOR);
        // A text becomes an address first.
        let read = |is_text: bool, cost: Range| match self.first() {
            Some(size) if is_text => cost.plus(size.times(TEXT_FACTOR)),
            _ => cost,
        };
        let cost = match self.function {
            "ip" if self.overload == "cidr_ip" => ONE,
            "cidr" | "isIP" | "isCIDR" | "ip" => self.first()?.times(TEXT_FACTOR),
            "ip.isCanonical" => self.first()?.times(2.0 * TEXT_FACTOR),
            "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast" => ONE,
            "containsIP" => read(self.overload == "cidr_contains_ip_string", compared()),
            "containsCIDR" => {
                let cost = compared().plus(ADDRESS_SIZE.times(TEXT_FACTOR)).plus(ONE);
                read(self.overload == "cidr_contains_cidr_string", cost)
            }
            _ => return None,
        };
        Some((cost, None))
    }

    /// Values of Kubernetes' own types.
    fn of_equality(&self) -> Option<Cost> {
        let [left, right] = self.args else { return None };
        let name = left.of.name();
        if self.function != operators::EQUALS || name != right.of.name() {
            return None;
        }
        let cost = match (&left.of, name.as_str()) {
            (Type::Opaque(..), "net.IP" | "net.CIDR") => ONE,
            (Type::Object(_), "kubernetes.NamedFormat") => Range {
                min: 1,
                max: FORMAT_SIZE_MAX,
            }
            .times(TEXT_FACTOR),
            (Type::Object(_), "kubernetes.URL") => {
                let max = right.size.map_or(1, |size| size.max);
                Range { min: 1, max }.times(TEXT_FACTOR)
            }
            (Type::Object(_), "kubernetes.Quantity" | "kubernetes.Semver") => ONE,
            (Type::Object(_), name) if name.starts_with("kubernetes.authorization.") => ONE,
            _ => return None,
        };
        Some((cost, None))
    }

    fn of_standard(&self) -> Option<Cost> {
        let arg = |index: usize| self.args.get(index).map(Argument::size_or_unknown);
        let target = || self.target.map(Argument::size_or_unknown);
        Some(match (self.overload, self.args.len()) {
            ("string_format", _) => (target()?.times(TEXT_FACTOR), None),
            ("string_to_bytes", 1) => {
                let size = arg(0)?;
                // A character becomes up to four bytes.
                let max = size.max.wrapping_mul(4);
                (size.times(TEXT_FACTOR), Some(Range { min: size.min, max }))
            }
            ("bytes_to_string", 1) => {
                let size = arg(0)?;
                let result = Range {
                    min: size.min / 4,
                    max: size.max,
                };
                (size.times(TEXT_FACTOR), Some(result))
            }
            ("strings_quote", 1) => {
                let size = arg(0)?;
                let result = Range {
                    min: size.min.wrapping_add(2),
                    max: size.max.wrapping_mul(2).wrapping_add(2),
                };
                (size.times(TEXT_FACTOR), Some(result))
            }
            ("starts_with_string" | "ends_with_string", 1) => (arg(0)?.times(TEXT_FACTOR), None),
            ("in_list", 2) => (arg(1)?.times(1.0), None),
            ("matches_string", 1) => {
                let text = target()?.plus(ONE).times(TEXT_FACTOR);
                (text.by(arg(0)?.times(PATTERN_FACTOR)), None)
            }
            ("contains_string", 1) => (target()?.times(TEXT_FACTOR).by(arg(0)?.times(TEXT_FACTOR)), None),
            ("add_list", 2) => (ONE, Some(arg(0)?.plus(arg(1)?))),
            ("add_string" | "add_bytes", 2) => {
                let size = arg(0)?.plus(arg(1)?);
                (size.times(TEXT_FACTOR), Some(size))
            }
            (overload, 2) if is_comparison(overload) => {
                let max = arg(0)?.max.min(arg(1)?.max);
                let min = u64::from(max > 0);
                (Range { min, max }.times(TEXT_FACTOR), None)
            }
            _ => return None,
        })
    }
}

/// Each is compared with the others; texts are walked through besides.
fn sort_factor(overload: &str) -> f64 {
    match overload.split('_').nth(1) {
        Some("string" | "bytes") => 2.0 + TEXT_FACTOR,
        _ => 2.0,
    }
}

/// Comparisons whose cost depends on the shorter side.
fn is_comparison(overload: &str) -> bool {
    matches!(overload, "equals" | "not_equals")
        || overload
            .strip_suffix("_string")
            .or_else(|| overload.strip_suffix("_bytes"))
            .is_some_and(|operator| matches!(operator, "less" | "less_equals" | "greater" | "greater_equals"))
}
