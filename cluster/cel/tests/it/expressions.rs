//! Rules as they run: every function and kind of expression that real Kubernetes has, as far as ours runs it.

use cluster_fields::FieldError;
use serde_json::json;

use crate::json_schema::{compile_new, evaluate, words};

/// Rules that hold for the object of the tests.
const RULES: &[&str] = &[
    "dyn(1) == 1",
    "dyn(self.s) == 'aab'",
    "1 == 1",
    "self.n == 5",
    "1 < 2.0",
    "1u < 2",
    "self.l.all(i, x, x > i)",
    "self.l.exists(i, x, i == 1 && x == 2)",
    "self.l.existsOne(i, x, x == 2)",
    "self.l.exists_one(i, x, x == 2)",
    "self.l.transformList(i, x, i + x) == [1, 3]",
    "self.l.transformList(i, x, i > 0, i + x) == [3]",
    "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
    "{'a': 1}.transformMapEntry(k, v, {v: k}) == {1: 'a'}",
    "{'a': 1}.all(k, v, v == 1 && k == 'a')",
    "self.l.sortBy(x, -x) == [2, 1]",
    "[3, 1, 2].sort() == [1, 2, 3]",
    "[b'b', b'a'].sort() == [b'a', b'b']",
    "[1, 2].first().value() == 1",
    "[1, 2].last().value() == 2",
    "[[1], [2]].flatten() == [1, 2]",
    "[1,2,3].slice(1, 2) == [2]",
    "[1,2].reverse() == [2, 1]",
    "[1, 1].distinct() == [1]",
    "lists.range(2) == [0, 1]",
    "self.?s.orValue('') == 'aab'",
    "self.?zz.orValue('x') == 'x'",
    "self.?s.optMap(x, x + 'c').value() == 'aabc'",
    "self.?s.optFlatMap(x, optional.of(x)).hasValue()",
    "{?'a': optional.of(1)}.size() == 1",
    "[?optional.none()].size() == 0",
    "self.l[?5].hasValue() == false",
    "optional.of(1).or(optional.of(2)).value() == 1",
    "optional.ofNonZeroValue('').hasValue() == false",
    "optional.unwrap([optional.of(1), optional.none()]) == [1]",
    "[optional.of(1)].unwrapOpt() == [1]",
    "type(1) == int",
    "type('a') == string",
    "type(self.l) == list",
    "type(duration('1s')) == google.protobuf.Duration",
    "type(null) == null_type",
    "type({}) == map",
    "type(ip('1.2.3.4')) == net.IP",
    "self.s.charAt(0) == 'a'",
    "self.s.indexOf('b') == 2",
    "self.s.lastIndexOf('a') == 1",
    "'a,b'.split(',') == ['a', 'b']",
    "self.s.substring(1) == 'ab'",
    "' a '.trim() == 'a'",
    "'A'.lowerAscii() == 'a'",
    "'a'.upperAscii() == 'A'",
    "strings.quote('a') == '\"a\"'",
    "self.l.isSorted()",
    "self.l.sum() == 3",
    "self.l.min() == 1",
    "self.l.max() == 2",
    "self.l.indexOf(2) == 1",
    "self.l.lastIndexOf(1) == 0",
    "ip('1.2.3.4').family() == 4",
    "isIP('1.2.3.4')",
    "ip.isCanonical('1.2.3.4')",
    "cidr('1.2.3.0/24').containsIP('1.2.3.4')",
    "cidr('1.2.3.0/24').containsCIDR('1.2.3.0/25')",
    "cidr('1.2.3.0/24').ip() == ip('1.2.3.0')",
    "cidr('1.2.3.4/24').masked() == cidr('1.2.3.0/24')",
    "cidr('1.2.3.4/24').prefixLength() == 24",
    "isCIDR('1.2.3.0/24')",
    "url('https://a:80/b?c=d').getHost() == 'a:80'",
    "isURL('https://a')",
    "url('https://a/b?c=d').getQuery() == {'c': ['d']}",
    "quantity('1').isGreaterThan(quantity('0'))",
    "quantity('1').add(2).compareTo(quantity('3')) == 0",
    "isQuantity('1Gi')",
    "quantity('5').asInteger() == 5",
    "sign(quantity('-1')) == -1",
    "quantity('1') == quantity('1')",
    "semver('1.2.3').major() == 1",
    "isSemver('1.2.3')",
    "semver('v1.2', true).minor() == 2",
    "semver('1.2.3').isLessThan(semver('1.2.4'))",
    "format.dns1123Label().validate('A').hasValue()",
    "!format.uri().validate('https://a').hasValue()",
    "'abc'.matches('^a')",
    "matches('abc', '^a')",
    "'abc'.find('b') == 'b'",
    "'abab'.findAll('b') == ['b', 'b']",
    "sets.intersects([1], [1, 2])",
    "sets.equivalent([1], [1])",
    "timestamp('2020-01-01T00:00:00Z').getFullYear() == 2020",
    "timestamp('2020-01-01T00:00:00Z') + duration('1h') > timestamp('2020-01-01T00:00:00Z')",
    "duration('1h').getMinutes() == 60",
    "timestamp(0) == timestamp('1970-01-01T00:00:00Z')",
    "int(timestamp(5)) == 5",
    "duration('1h') - duration('30m') == duration('30m')",
    "string(duration('90s')) == '90s'",
    "timestamp('2020-01-01T00:00:00Z').getHours('+01:00') == 1",
    "timestamp('2020-01-01T00:00:00Z').getHours('Europe/Berlin') == 1",
    "int('5') == 5",
    "uint(5) == 5u",
    "double(5) == 5.0",
    "string(5) == '5'",
    "string(1.5) == '1.5'",
    "bool('true')",
    "bytes('a') == b'a'",
    "string(b'a') == 'a'",
    "int(5.9) == 5",
    "size('ab') == 2",
    "'ab'.size() == 2",
    "b'ab'.size() == 2",
    "{}.size() == 0",
    "!(1 in [2])",
    "'a' in {'a': 1}",
    "self.l.exists(x, x == 2) ? true : false",
    "!!true",
    "--1 == 1",
    "-(-1) == 1",
    "0x1F == 31",
    "r'\\d' == '\\\\d'",
    "'''a''' == 'a'",
    "'\\u00e9' == 'é'",
    "1 - -1 == 2",
    "has(self.s) && !has({'a': 1}.b)",
    "self.m.a == 'b'",
    "self.m['a'] == 'b'",
    "self.m.exists(k, k == 'a')",
    "self.namespace == 'x'",
    "self.__namespace__ == 'x'",
    "self.a__dash__b == 1",
    "has(self.namespace)",
    "'a'.startsWith('a') && 'a'.endsWith('a') && 'a'.contains('a')",
    "[1] + [2] == [1, 2]",
    "1 / 2 == 0 && 5 % 3 == 2 && 5.0 / 2.0 == 2.5",
    "'%s %d'.format(['a', 1]) == 'a 1'",
    "'%s'.format([[1, 2]]) == '[1, 2]'",
];

#[test]
fn rules_that_are_true_in_kubernetes_are_true() {
    RULES.iter().for_each(|rule| assert_true(rule));
}

/// Real Kubernetes leaves them anywhere. So many elements that sorting would see that they have no order.
#[test]
fn nan_is_sorted_behind_all_numbers() {
    assert_true("lists.range(60).map(x, x % 3 == 0 ? 0.0 / 0.0 : double(-x)).sort()[39] == -1.0");
    assert_true("lists.range(60).sortBy(x, x % 3 == 0 ? 0.0 / 0.0 : double(-x))[39] == 1");
}

/// As google/cel-go v0.26 `ext/lists.go`.
#[test]
fn elements_without_an_order_cannot_be_sorted() {
    for list in [
        "[dyn(1), dyn('a')]",
        "[dyn(1), dyn(2.0)]",
        "dyn([{}, {}])",
        "dyn([null])",
    ] {
        let errors = errors_of(&format!("dyn({list}).sort().size() > 0"));
        assert_eq!(errors.len(), 1, "{list}: {errors:?}");
    }
}

fn assert_true(rule: &str) {
    assert_eq!(errors_of(rule), Vec::new(), "{rule}");
}

/// The errors of a rule that compiles, on an object with a text, a number, a list, a map and fields with odd names.
fn errors_of(rule: &str) -> Vec<FieldError> {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {
        "l": {"type": "array", "items": {"type": "integer"}}, "s": {"type": "string"}, "n": {"type": "integer"},
        "zz": {"type": "string"}, "namespace": {"type": "string"}, "a-b": {"type": "integer"}, "m": texts},
        "x-kubernetes-validations": [{"rule": rule}]});
    // Its cost without bounds does not matter here.
    let refused = words(&compile_new(&schema).err().unwrap_or_default());
    assert!(!refused.contains("compilation failed"), "{rule}: {refused}");
    let value = json!({"l": [1, 2], "s": "aab", "n": 5, "namespace": "x", "a-b": 1, "m": {"a": "b"}});
    evaluate(&schema, &value)
}
