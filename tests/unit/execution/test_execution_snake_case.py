"""The peer's conversion of names: its own tests' table, and outputs of its own function on odd names."""

from __future__ import annotations

import pytest

from runner.execution.snake_case import to_snake

PEER_TESTS = """
var var | var_var var_var | size_k8s_test size_k8s_test | 888 888 | k8s_var k8s_var | _k8s_var _k8s_var
ThisShouldHaveUnderscores _this_should_have_underscores | sizeK8sBuckets size_k8s_buckets
_CanYou_Handle_mixedVars _can_you_handle_mixed_vars | this_should_be_a_noop this_should_be_a_noop
egressIPs egress_ips | egressIPsEgress egress_ips_egress | egressIPsegress egress_ips_egress
IPsegress _ips_egress | egressIP egress_ip | egressIPEgress egress_ip_egress | egressIPegress egress_ip_egress
URLegressIPEgressHTTP url_egress_ip_egress_http | URLsegressIPsEgressHTTPs _urls_egress_ips_egress_https
"""
PEER_OUTPUTS = """
FooBar _foo_bar | FOOBar _foo_bar | fooBAR foo_bar | foo-bar foo_bar | userID user_id | userIDs user_i_ds | aB ab
aBc a_bc | aBCDe abc_de | URL __url | HTTP __http | IP __ip | IPs __ips | HTTPS http_s | HTTPSPort http_s_port
enableHTTPS enable_http_s | HTTPPort http_port | HTTPProxyURL http_proxy_url | clusterIPs cluster_ips
ClusterIP _cluster_ip | IPv4 ip_v4 | ipv4 ipv4 | VIP _v_ip | RECIPE _rec_ip_e | SKIPTests _sk_ip_tests
ZIPFile _z_ip_file | URLIP url__ip | x1y2 x_1_y2 | a1b2c3 a_1_b2c3 | v1beta1 v1beta1
storageV1Beta1 storage_v1_beta1 | oauth2Proxy oauth2_proxy | OAuth2 _o_auth2 | foo_ foo_ | foo__bar foo__bar
Été été | foo.bar foo.bar
db2_init db2_init | abc11def abc11def | s3Bucket s3_bucket | test_k8s_size test_k8s_size | x509Cert x509_cert
loadBalancerIP load_balancer_ip | IPAddr ip_addr | HTTPURL http__url | HTTPs __https
serverURLPath server_url_path | camelCaseURL camel_case_url | enableIPv6 enable_ip_v6 | ipv4CIDR ipv4cidr
podCIDRs pod_cid_rs | EC2Instance _ec2_instance | JSONData _json_data | myJSON my_json | A _a | ABc _a_bc
trailing_ trailing_ | app.kubernetes.io/name app.kubernetes.io/name | naïveName naïve_name | 日本語Key 日本語_key
_private _private | __dunder __dunder | $ref $ref | @type @type | 1abc 1abc | Straße _straße
emoji😀Name emoji😀_name | pg1_repo_path pg1_repo_path
"""


def _pairs(table: str) -> list[tuple[str, str]]:
    cells = table.replace("\n", "|").split("|")
    return [(name, snake) for name, snake in (cell.split() for cell in cells if cell.strip())]


@pytest.mark.parametrize(("name", "expected"), _pairs(PEER_TESTS))
def test_a_name_of_the_peers_own_tests_is_converted_as_there(name: str, expected: str) -> None:
    """Each row of the peer's test table gives the peer's answer."""
    assert to_snake(name) == expected


@pytest.mark.parametrize(("name", "expected"), _pairs(PEER_OUTPUTS))
def test_an_odd_name_is_converted_as_the_peers_function_does(name: str, expected: str) -> None:
    """Names with digits, abbreviations, punctuation and other scripts give what the peer gives (field case P1)."""
    assert to_snake(name) == expected


@pytest.mark.parametrize(("name", "expected"), [("k8s var", "k8s_var"), ("with space", "with_space"), (" a ", "a")])
def test_blanks_become_underscores_except_at_the_ends(name: str, expected: str) -> None:
    """A blank separates words, and is cut at both ends."""
    assert to_snake(name) == expected


@pytest.mark.parametrize(("name", "expected"), [("\u0130d", "id"), ("ΟΔΟΣ", "οδοσ"), ("ǅ", "ǆ")])
def test_small_letters_are_those_of_go(name: str, expected: str) -> None:
    """Each character has one small letter, wherever it stands."""
    assert to_snake(name) == expected


@pytest.mark.parametrize("name", ["", " ", "   "])
def test_an_empty_or_blank_name_stays_as_it_is(name: str) -> None:
    """A key without a character to convert, on which the peer crashes, is kept (field case P1)."""
    assert to_snake(name) == name
