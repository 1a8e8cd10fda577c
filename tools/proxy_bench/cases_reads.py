"""The reads of the replay: every form that a cache or a parser could get wrong (field case C1)."""

from __future__ import annotations

from tools.proxy_bench.case import (
    DEPLOYMENTS,
    JSON,
    MAPS,
    PODS,
    PROTOBUF,
    TABLE,
    Case,
    chosen,
    get,
    labelled,
    listed,
    watched,
)

_PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles"
_ONE = f"{MAPS}/m-7"
_LONG = "labelSelector=role%20in%20(a" + ("," + "c" * 60) * 1600 + ")"

SINGLE = (
    get("one object", _ONE),
    get("one object, pretty", f"{_ONE}?pretty=true"),
    get("one object as YAML", _ONE, accept="application/yaml"),
    get("one object as Table", _ONE, accept=TABLE),
    get("one object as PartialObjectMetadata", _ONE, accept=_PARTIAL),
    get("one object as protobuf", _ONE, accept=PROTOBUF),
    get("one object, resourceVersion=0", f"{_ONE}?resourceVersion=0"),
    get("one object, any type", _ONE, accept="*/*"),
    get("one object in a form that there isn't", _ONE, accept="text/csv"),
    get("an object that is missing", f"{MAPS}/nothing"),
    get("an object of a kind that is missing", "/apis/nothing.example.com/v1/namespaces/{ns}/things/one"),
    get("an object in a namespace that is missing", "/api/v1/namespaces/there-is-none/configmaps/m-7"),
    get("a percent-encoded name", f"{_ROLES}/replay%3Areader"),
    get("the same name as it is", f"{_ROLES}/replay:reader"),
    get("a name with an encoded slash", f"{MAPS}/m%2F7"),
    get("a name with an encoded space", f"{MAPS}/m%207"),
    get("a doubled slash", "/api/v1//namespaces/{ns}/configmaps/m-7"),
    get("a slash at the end", f"{_ONE}/"),
    get("a namespace", "/api/v1/namespaces/{ns}"),
)
LISTS = (
    listed("500 objects"),
    listed("500 objects, pretty", "pretty=true"),
    Case(name="500 objects, gzip", target=MAPS, headers={"Accept": JSON, "Accept-Encoding": "gzip"}, of_list=True),
    labelled("role=a"),
    labelled("role==a"),
    labelled("role!=a"),
    labelled("role in (a,b)"),
    labelled("role notin (a)"),
    labelled("role"),
    labelled("!role"),
    labelled("role=a,tier=x"),
    labelled(" role = a "),
    labelled("role in (a"),
    labelled("role=a b"),
    chosen("metadata.name=m-7"),
    chosen("metadata.name!=m-7"),
    chosen("metadata.namespace={ns}"),
    chosen("data.a=b"),
    chosen("spec.nodeName=n", of=PODS),
    chosen("status.phase=Pending", of=PODS),
    listed("label and field selector", "labelSelector=role%3Da&fieldSelector=metadata.name%3Dm-0"),
    listed("limit", "limit=7"),
    listed("the next page", "limit=7&continue={continue}"),
    listed("a page of nothing", "limit=7&continue=bm90aGluZw"),
    listed("a list of resourceVersion=0", "resourceVersion=0"),
    listed("a list at least so new", "resourceVersion={rv}"),
    listed("exactly that list", "resourceVersion={rv}&resourceVersionMatch=Exact"),
    listed("a list that is not older", "resourceVersion={rv}&resourceVersionMatch=NotOlderThan"),
    listed("resourceVersionMatch alone", "resourceVersionMatch=Exact"),
    listed("a resourceVersion that is none", "resourceVersion=yesterday"),
    listed("a list as Table", "limit=3", accept=TABLE),
    listed("a list as PartialObjectMetadataList", "limit=3", accept=_PARTIAL_LIST),
    Case(
        name="a list as protobuf",
        target=f"{MAPS}?resourceVersion={{rv}}&resourceVersionMatch=Exact&limit=500",
        headers={"Accept": PROTOBUF},
    ),
    listed("all namespaces by label", "labelSelector=replay%3D{ns}", of="/api/v1/configmaps"),
    listed("a selector of 100 kB", _LONG),
    listed("the same parameter twice", "limit=2&limit=3"),
    listed("a parameter that there isn't", "nothing=1&limit=2"),
    listed("an encoded comma", "labelSelector=role%20in%20(a%2Cb)&limit=2"),
    listed("a plus for a space", "labelSelector=role+in+(a,b)&limit=2"),
)
WATCHES = (
    watched("a watch from the list's resourceVersion", "resourceVersion={rv}"),
    watched("a watch of one object", "fieldSelector=metadata.name%3Dm-7"),
    watched("a watch by label", "labelSelector=role%20in%20(b)&resourceVersion=0"),
    watched("a watch with bookmarks", "resourceVersion={rv}&allowWatchBookmarks=true"),
    watched("a streaming list", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"),
    watched("a watch from too old a version", "resourceVersion=1"),
    watched("a watch from no version", "resourceVersion=yesterday"),
    watched("a watch as Table", "fieldSelector=metadata.name%3Dm-7", accept=TABLE),
    watched("the old form of a watch", "", of="/api/v1/watch/namespaces/{ns}/configmaps/m-7?"),
)
METHODS = (
    Case(name="HEAD of an object", method="HEAD", target=_ONE, headers={"Accept": JSON}),
    Case(name="HEAD of nothing", method="HEAD", target=f"{MAPS}/nothing", headers={"Accept": JSON}),
    Case(name="HEAD of /version", method="HEAD", target="/version"),
    Case(name="OPTIONS", method="OPTIONS", target=MAPS, headers={"Accept": JSON}),
    Case(name="PROPFIND", method="PROPFIND", target=MAPS, headers={"Accept": JSON}),
)
SUBRESOURCES = (
    get("status of a Deployment", f"{DEPLOYMENTS}/d/status"),
    get("scale of a Deployment", f"{DEPLOYMENTS}/d/scale"),
    get("a subresource that there isn't", f"{DEPLOYMENTS}/d/nothing"),
    get("the log of a Pod without a node", f"{PODS}/p/log"),
    get("the log of no Pod", f"{PODS}/nothing/log?follow=true&tailLines=3"),
    get("exec without an upgrade", f"{PODS}/p/exec?command=a&command=b&stdout=true"),
)
PATHS = (
    *(
        get(path, path)
        for path in (
            "/version", "/version/", "/healthz", "/livez?verbose", "/readyz/ping", "/api", "/apis", "/api/v1",
            "/apis/apps", "/apis/apps/v1", "/apis/nothing.example.com", "/openapi/v2", "/openapi/v3",
            "/openapi/v3/api/v1", "/", "/nothing", "/apis/apps/v1/../../../version",
        )
    ),
    Case(name="/metrics", target="/metrics", headers={"Accept": "text/plain"}, names_only=True),
    get("aggregated discovery", "/apis", accept=_AGGREGATED),
    get("aggregated discovery by its ETag", "/apis", accept=_AGGREGATED, If_None_Match="{etag}"),
)  # fmt: skip
READS = (*SINGLE, *LISTS, *WATCHES, *METHODS, *SUBRESOURCES, *PATHS)
