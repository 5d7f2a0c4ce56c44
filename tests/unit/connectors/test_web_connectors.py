from __future__ import annotations

import gzip
import socket
import threading
import time

import pytest

from pipestream.connectors.addresses import is_public
from pipestream.connectors.connector import LeftOut, Seen, Unreadable
from pipestream.connectors.registry import make_connector
from pipestream.connectors.safe_xml import XmlRefused, read_xml
from pipestream.connectors.web import Pace
from pipestream.errors import ConnectorInvalid, SourceUnavailable, SourceUnreadable
from pipestream.graph.model import Connector
from pipestream.ids import check_key_part
from pipestream.plugins import PluginContext
from pipestream.settings import Settings
from pipestream.wire import PipeDoc
from pipestream_testing.remembered import Remembered
from pipestream_testing.website import run_site

RSS = """<?xml version="1.0"?>
<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel><title>News</title>
<item><title>One &amp; only</title><link>/one</link><guid isPermaLink="false">id-1</guid><author>Ann</author>
<pubDate>Mon, 02 Nov 2026 10:00:00 GMT</pubDate><category>a</category><category>b</category>
<description>short</description><content:encoded><![CDATA[<p>All of it</p>]]></content:encoded></item>
<item><title>Two</title><link>/two</link><pubDate>yesterday</pubDate></item>
<item><title>Nameless</title></item>
</channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>
<entry><id>urn:1</id><title>One</title><link rel="self" href="/x"/><link href="/one"/><author><name>Ann</name></author>
<published>2026-11-02T10:00:00Z</published><updated>2026-11-03T10:00:00+01:00</updated>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">All <b>of</b> it</div></content></entry>
<entry><id>urn:2</id><title>Two</title><summary>plain</summary></entry></feed>"""
LAUGHS = """<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><rss><channel><item><title>&c;</title></item></channel></rss>"""


@pytest.fixture(scope="module")
def server():
    with run_site() as running:
        yield running


@pytest.fixture
def site(server):
    server.pages.clear()
    server.requests.clear()
    return server


@pytest.fixture
def memory():
    return Remembered()


def connect(kind, url, *, secrets=None, **options):
    given = {"requests_per_second": 1000.0, "allow_private": True, "timeout_s": 20.0, **options}
    return make_connector(Connector(kind, {"url": url, **given}), PluginContext(Settings(plugin_secrets=secrets or {})))


def read(kind, url, memory=None, **options):
    memory = memory or Remembered()
    found = memory.keep(list(connect(kind, url, **options).changes(memory)))
    return [each for each in found if not isinstance(each, Seen)]


def urlset(site, *pages, lastmod=""):
    entries = "".join(f"<url><loc>{site.address}{page}</loc><lastmod>{lastmod}</lastmod></url>" for page in pages)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'.encode()


def test_entries_of_rss_become_documents(site):
    site.pages["/feed"] = RSS.encode()

    one, two, nameless = read("feed", f"{site.address}/feed")

    found = one.search_metadata
    assert (found.title, found.author, found.source_uri) == ("One & only", "Ann", f"{site.address}/one")
    assert (found.creation_date.seconds, list(found.keywords.keyword)) == (1_793_613_600, ["a", "b"])
    assert (one.blob_bag.blob.data, one.blob_bag.blob.mime_type) == (b"<p>All of it</p>", "text/html")
    assert check_key_part(one.doc_id, "id").startswith("id-1-")
    assert two.search_metadata.metadata["creation_date"] == "yesterday"
    assert nameless == Unreadable("entry 3", "the entry has neither an id nor a link to name it by")


def test_entries_of_atom_become_documents(site):
    site.pages["/feed"] = ATOM.encode("utf-16")

    one, two = read("feed", f"{site.address}/feed")

    assert (one.search_metadata.title, one.search_metadata.author) == ("One", "Ann")
    assert one.search_metadata.source_uri == f"{site.address}/one"
    assert one.search_metadata.last_modified_date.seconds - one.search_metadata.creation_date.seconds == 23 * 3600
    assert (one.blob_bag.blob.data, one.blob_bag.blob.mime_type) == (b"All of it", "text/html")
    assert (two.blob_bag.blob.data, two.blob_bag.blob.mime_type) == (b"plain", "text/plain")


def test_a_feed_that_is_unchanged_is_not_sent_again(site, memory):
    site.pages["/feed"] = (200, {"ETag": '"1"'}, ATOM.encode())
    read("feed", f"{site.address}/feed", memory)

    (again,) = read("feed", f"{site.address}/feed", memory)
    site.pages["/feed"] = (200, {"ETag": '"2"'}, ATOM.encode())

    assert again.reason == "the feed is unchanged, says the server"
    assert len(read("feed", f"{site.address}/feed", memory)) == 2


def test_an_entry_that_has_not_changed_is_left_out_of_a_feed_that_has(site, memory):
    site.pages["/feed"] = ATOM.encode()
    read("feed", f"{site.address}/feed", memory)
    site.pages["/feed"] = ATOM.replace("<title>Two<", "<title>Second<").encode()

    one, two = read("feed", f"{site.address}/feed", memory)

    assert one == LeftOut("urn:1", "unchanged since an earlier run")
    assert two.search_metadata.title == "Second"


def test_an_etag_that_is_not_ascii_is_sent_back_as_it_came(site, memory):
    site.pages["/feed"] = (200, {"ETag": '"ü"'}, ATOM.encode())
    read("feed", f"{site.address}/feed", memory)

    (again,) = read("feed", f"{site.address}/feed", memory)

    assert again.reason == "the feed is unchanged, says the server"


def test_the_pages_of_a_feed_are_fetched_and_one_that_fails_is_tried_again(site, memory):
    site.pages["/feed"] = (200, {"ETag": '"1"'}, RSS.replace("<item><title>Nameless</title></item>", "").encode())
    site.pages["/one"] = (200, {"ETag": '"p"', "Content-Type": "text/html; charset=utf-8"}, b"<html>1</html>")
    site.pages["/two"] = (503, {}, b"")
    one, two = read("feed", f"{site.address}/feed", memory, pages=True)
    site.pages["/two"] = b"two"

    again = read("feed", f"{site.address}/feed", memory, pages=True)

    assert (one.blob_bag.blob.data, one.search_metadata.mime_type) == (b"<html>1</html>", "text/html")
    assert two == Unreadable(f"{site.address}/two", "the server answered 503")
    assert isinstance(again[0], LeftOut)
    assert again[1].blob_bag.blob.data == b"two"


def test_the_pages_of_a_sitemap_are_fetched_once_and_then_when_they_changed(site, memory):
    site.pages["/map.xml"] = urlset(site, "/a", "/b/", lastmod="2026-01-01")
    site.pages["/a"] = (200, {"ETag": '"a"', "Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT"}, b"a")
    site.pages["/b/"] = b"b"
    first = read("sitemap", f"{site.address}/map.xml", memory)
    site.paths()

    unchanged = read("sitemap", f"{site.address}/map.xml", memory)
    asked = site.paths()
    site.pages["/map.xml"] = urlset(site, "/a", "/b/", lastmod="2026-02-02")
    third = read("sitemap", f"{site.address}/map.xml", memory)

    assert [each.blob_bag.blob.data for each in first] == [b"a", b"b"]
    assert [each.search_metadata.title for each in first] == ["a", "b"]
    assert first[0].search_metadata.last_modified_date.seconds == 1_793_613_600
    assert [each.reason for each in unchanged] == ["unchanged, says the sitemap"] * 2
    assert asked == ["/map.xml"]
    assert third[0].reason == "unchanged, says the server"
    assert third[1] == first[1]


def test_an_index_of_compressed_sitemaps_is_followed_within_its_limits(site):
    index = "".join(
        f"<sitemap><loc>{site.address}/{name}</loc></sitemap>" for name in ("1.gz", "2.gz", "3.gz", "index")
    )
    site.pages["/index"] = f"<sitemapindex>{index}</sitemapindex>".encode()
    site.pages["/1.gz"] = gzip.compress(urlset(site, "/a", "/a"))
    site.pages["/2.gz"] = gzip.compress(b"x" * 100)
    site.pages["/a"] = b"a"

    found = read("sitemap", f"{site.address}/index", max_sitemaps=3)

    assert [type(each).__name__ for each in found] == ["PipeDoc", "LeftOut", "Unreadable", "LeftOut", "LeftOut"]
    assert found[2].reason.startswith("not XML")
    assert "raise max_sitemaps" in found[3].reason


@pytest.mark.parametrize("address", ["http://[x/", "http://h:99999/", "//"])
def test_an_address_that_is_none_is_left_out_and_stops_no_page(site, address):
    listed = f"<url><loc>{address}</loc></url><url>".encode()
    site.pages["/map"] = urlset(site, "/a").replace(b"<url>", listed, 1)
    site.pages["/a"] = b"a"

    left_out, page = read("sitemap", f"{site.address}/map")

    assert isinstance(left_out, LeftOut)
    assert page.blob_bag.blob.data == b"a"


def test_an_entry_whose_link_is_no_address_is_left_out_and_stops_no_entry(site):
    site.pages["/feed"] = RSS.replace("<link>/one</link>", "<link>//[x</link>").encode()
    site.pages["/two"] = b"two"

    one, two, _ = read("feed", f"{site.address}/feed")
    left_out, page, _ = read("feed", f"{site.address}/feed", pages=True)

    assert (one.search_metadata.source_uri, two.search_metadata.title) == ("//[x", "Two")
    assert isinstance(left_out, LeftOut)
    assert page.blob_bag.blob.data == b"two"


def test_a_sitemap_that_grows_when_it_is_decompressed_is_refused(site):
    site.pages["/map"] = gzip.compress(b" " * 53_000_000)

    with pytest.raises(SourceUnreadable, match="more than 52428800 bytes when it is decompressed"):
        read("sitemap", f"{site.address}/map")


def test_pages_of_other_hosts_are_left_out(site):
    site.pages["/map"] = b"<urlset><url><loc>http://example.com/x</loc></url></urlset>"

    (left_out,) = read("sitemap", f"{site.address}/map")

    assert left_out.reason == "a page of another host; set other_hosts: true if it is meant"


def test_robots_txt_is_obeyed_and_asked_once(site):
    site.pages["/robots.txt"] = b"User-agent: *\nDisallow: /private\n"
    site.pages["/map"] = urlset(site, "/private/x", "/open")
    site.pages["/private/x"] = site.pages["/open"] = b"page"

    forbidden, page = read("sitemap", f"{site.address}/map")

    assert forbidden == LeftOut(f"{site.address}/private/x", "robots.txt forbids it")
    assert isinstance(page, PipeDoc)
    assert [path for path, _ in site.requests].count("/robots.txt") == 1
    assert len(read("sitemap", f"{site.address}/map", robots=False)) == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [((403, {}, b""), "robots.txt forbids it"), ((500, {}, b""), "robots.txt cannot be read: the server answered 500")],
)
def test_a_server_that_does_not_show_its_robots_txt_is_left_alone(site, answer, reason):
    site.pages["/robots.txt"] = answer
    site.pages["/feed"] = ATOM.encode()

    with pytest.raises(SourceUnavailable, match=reason):
        read("feed", f"{site.address}/feed")


@pytest.mark.parametrize("number", ["²", "9" * 5_000])
def test_a_number_of_robots_txt_that_python_cannot_read_is_passed_over(site, number):
    rules = f"User-agent: *\nCrawl-delay: {number}\nRequest-rate: 1/{number}\nDisallow: /private/ä\n"
    site.pages["/robots.txt"] = rules.encode()
    site.pages["/map"] = urlset(site, "/private/%C3%A4", "/open")
    site.pages["/open"] = b"page"

    forbidden, page = read("sitemap", f"{site.address}/map")

    assert forbidden.reason == "robots.txt forbids it"
    assert page.blob_bag.blob.data == b"page"


@pytest.mark.parametrize("location", ["http://[x/", "//h:99999/"])
def test_a_redirect_to_what_is_no_address_stops_no_page(site, location):
    site.pages["/map"] = urlset(site, "/moved", "/a")
    site.pages["/moved"] = (302, {"Location": location}, b"")
    site.pages["/a"] = b"a"

    moved, page = read("sitemap", f"{site.address}/map")

    assert isinstance(moved, LeftOut)
    assert page.blob_bag.blob.data == b"a"


@pytest.mark.parametrize(
    "said", ["Fri, 31 Dec 9999 23:00:00 -1400", f"Mon, 02 Nov 2026 10:00:00 +{'9' * 20}", "yesterday"]
)
def test_a_page_with_a_date_that_no_calendar_has_is_taken_without_it(site, said):
    site.pages["/map"] = urlset(site, "/a")
    site.pages["/a"] = (200, {"Last-Modified": said}, b"a")

    (page,) = read("sitemap", f"{site.address}/map")

    assert page.blob_bag.blob.data == b"a"
    assert not page.search_metadata.HasField("last_modified_date")


def test_redirects_are_followed_a_few_times_and_never_out_of_http(site):
    site.pages["/feed"] = (301, {"Location": "/real"}, b"")
    site.pages["/real"] = ATOM.encode()
    site.pages["/loop"] = (302, {"Location": "/loop"}, b"")
    site.pages["/file"] = (302, {"Location": "file:///etc/passwd"}, b"")

    assert len(read("feed", f"{site.address}/feed")) == 2
    with pytest.raises(SourceUnavailable, match="more than 5 redirects"):
        read("feed", f"{site.address}/loop")
    with pytest.raises(SourceUnavailable, match="is not an address of http"):
        read("feed", f"{site.address}/file")


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:{port}/feed", "http://localhost:{port}/feed", "http://[::ffff:127.0.0.1]:{port}/feed",
     "http://0.0.0.0:{port}/feed", "http://2130706433:{port}/feed", "http://169.254.169.254/feed", "http://[::1]/feed"],
)  # fmt: skip
def test_addresses_inside_are_refused_unless_allowed(site, url):
    site.pages["/feed"] = ATOM.encode()
    url = url.format(port=site.address.rpartition(":")[2])

    with pytest.raises(SourceUnavailable, match=r"not of the public internet; if it is meant, set allow_private: true"):
        read("feed", url, allow_private=False)
    assert site.requests == []


@pytest.mark.parametrize(
    ("address", "public"),
    [("8.8.8.8", True), ("2001:4860:4860::8888", True), ("10.0.0.1", False), ("100.64.0.1", False),
     ("224.0.0.1", False), ("::ffff:10.0.0.1", False), ("64:ff9b::7f00:1", False), ("2002:7f00:1::", False),
     ("fe80::1%eth0", False), ("fd00::1", False), ("0.0.0.0", False)],
)  # fmt: skip
def test_an_address_is_public_only_if_what_it_wraps_is(address, public):
    assert is_public(address) is public


def test_the_authorization_is_sent_to_its_own_host_only(site):
    with run_site() as other:
        site.pages["/feed"] = (302, {"Location": f"{other.address}/feed"}, b"")
        other.pages["/feed"] = ATOM.encode()

        read("feed", f"{site.address}/feed", secrets={"t": "Bearer abc"}, authorization_secret="t")

        assert {headers.get("Authorization") for _, headers in site.requests} == {"Bearer abc"}
        assert {headers.get("Authorization") for _, headers in other.requests} == {None}


def test_answers_that_are_too_large_compressed_or_too_slow_are_reported(site):
    site.pages["/map"] = urlset(site, "/large", "/packed")
    site.pages["/large"] = b"x" * 2_000
    site.pages["/packed"] = (200, {"Content-Encoding": "gzip"}, gzip.compress(b"x"))

    large, packed = read("sitemap", f"{site.address}/map", max_bytes=1_000)

    assert large.reason == "more than 1000 bytes; raise max_bytes"
    assert "compresses" in packed.reason


@pytest.mark.parametrize(
    ("begin", "reason"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", "not complete after 2 s", id="the body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX-Long: ", "no answer within 2 s", id="a header"),
    ],
)
def test_a_server_that_sends_one_byte_at_a_time_is_given_up(begin, reason):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_drip, args=(listening, begin), daemon=True).start()
        with pytest.raises(SourceUnavailable, match=reason):
            read("feed", f"http://127.0.0.1:{listening.getsockname()[1]}/", robots=False, timeout_s=2)


def _drip(listening, begin):
    connection, _ = listening.accept()
    connection.sendall(begin)
    try:
        while True:
            connection.sendall(b"x")
            time.sleep(0.05)
    except OSError:
        connection.close()


def test_requests_have_a_pace_and_a_host_may_ask_for_a_slower_one():
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    pace = Pace(2.0, sleep, lambda: now[0])
    times = []
    for pause_s in (0, 0, 3, 1000, 0):
        pace.wait(pause_s)
        times.append(now[0])

    assert times == [0, 0.5, 1.0, 4.0, 64.0]


@pytest.mark.parametrize("published", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_no_calendar_has_is_kept_as_text_and_stops_no_entry(site, published):
    first = f"<entry><id>a</id><published>{published}</published></entry>"
    site.pages["/feed"] = f'<feed xmlns="http://www.w3.org/2005/Atom">{first}<entry><id>b</id></entry></feed>'.encode()

    one, other = read("feed", f"{site.address}/feed")

    assert one.search_metadata.metadata["creation_date"] == published
    assert isinstance(other, PipeDoc)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LAUGHS, "it declares an entity"),
        ('<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><r>&x;</r>', "it declares an entity"),
        ("<rss><channel>", "not XML: no element found"),
        ("<rss>&nbsp;</rss>", "not XML: undefined entity"),
        ("<a>" * 200, "nested deeper than 100 elements"),
        ("", "not XML: no element found"),
        ("<html/>", "not a feed: its root is html"),
        ('<?xml version="1.0" encoding="nonsense"?><rss/>', "not XML"),
    ],
    ids=lambda text: text[:20],
)
def test_hostile_and_broken_feeds_are_refused_with_the_reason(site, text, reason):
    site.pages["/feed"] = text.encode()

    with pytest.raises(SourceUnreadable, match=reason):
        read("feed", f"{site.address}/feed")


def test_entities_are_refused_in_every_encoding():
    for encoding in ("utf-16", "utf-8-sig"):
        with pytest.raises(XmlRefused, match="declares an entity"):
            read_xml([LAUGHS.replace('<?xml version="1.0"?>', "").encode(encoding)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "ftp://x"}, "is not an address of http:// or https://"),
        ({"url": "https://me:hunter2@x/feed"}, "put them into authorization_secret"),
        ({"url": "http://x:99999/"}, "Port out of range"),
        ({"url": "http://x", "requests_per_second": 0}, "greater than 0"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(ConnectorInvalid, match=message) as caught:
        make_connector(Connector("feed", options), PluginContext(Settings()))
    assert "hunter2" not in str(caught.value)
