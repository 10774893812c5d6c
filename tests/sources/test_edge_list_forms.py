"""What files from elsewhere look like: read right where the evidence is on one side, else refused with the option."""

# ruff: noqa: E501  # a case a line
from __future__ import annotations

import argparse
import gzip

import numpy as np
import pytest
import scipy.sparse

import cpms
from cpms import InputError
from cpms.sources.readers.form_arguments import add_form_options

LINKS = [("ann", "bob"), ("bob", "cid"), ("cid", "ann")]
RING = [(1, 2), (2, 3), (3, 1)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("forms")


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def edges_of(graph):
    weights = [None] * graph.edges if graph.weights is None else graph.weights.tolist()
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), weights, strict=True)
    return sorted((graph.node_id(s), graph.node_id(t), *([w] if w is not None else [])) for s, t, w in ends)


READ = {
    "header of followers": ("a.csv", "follower,followee\nann,bob\nbob,cid\ncid,ann\n", {}, LINKS),
    "header of citations": ("a.csv", "citing,cited\nann,bob\nbob,cid\ncid,ann\n", {}, LINKS),
    "header of letters": ("a.csv", "u,v\nann,bob\nbob,cid\ncid,ann\n", {}, LINKS),
    "header of numbered words": ("a.csv", "node1,node2\nann,bob\nbob,cid\ncid,ann\n", {}, LINKS),
    "header of ends": ("a.csv", "start,end\nann,bob\nbob,cid\ncid,ann\n", {}, LINKS),
    "header above weights": ("a.csv", "who,whom,kg\nann,bob,1\nbob,cid,2.5\n", {}, [("ann", "bob", 1), ("bob", "cid", 2.5)]),
    "header again further down": ("a.csv", "source,target\nann,bob\nsource,target\nbob,cid\ncid,ann\n", {}, LINKS),
    "header again with a mark": ("a.csv", "source,target\nann,bob\n\ufeffsource,target\nbob,cid\ncid,ann\n", {}, LINKS),
    "header of numbers again": ("a.txt", "a b\n1 2\n2 3\na b \n3 1\n", {}, RING),
    "marks inside joined files": ("a.csv", "ann,bob\n\ufeffbob,cid\ncid,ann\n", {}, LINKS),
    "first line that is an edge": ("a.txt", "ann bob\nbob cid\ncid ann\n", {}, LINKS),
    "whole decimals": ("a.csv", "source,target\n1,2.0\n2.,3.00\n3,1\n", {}, RING),
    "whole decimals further down": ("a.txt", "1 2\n2 3\n" * 200 + "3.0 1\n", {"duplicates": "drop"}, RING),
    "whole decimals with weights": ("a.csv", "1.0,2,0.5\n2,3.0,2.0\n", {}, [(1, 2, 0.5), (2, 3, 2.0)]),
    "64 bits": ("a.csv", f"source,target\n{2**60},{2**63 - 1}\n", {"ids": "compact"}, [(2**60, 2**63 - 1)]),
    "quotes between tabs": ("a.tsv", '"source"\t"target"\n"ann"\tbob\nbob\t"cid"\n"cid"\t"ann"\n', {}, LINKS),
    "quotes around blanks": ("a.txt", '"a b" c\nc "d ""e"""\n', {}, [("a b", "c"), ("c", 'd "e"')]),
    "quotes in names": ("a.tsv", '"Al"_Y\tb\nb\t"Al"_Y\n', {}, [('"Al"_Y', "b"), ("b", '"Al"_Y')]),
    "no-break spaces": ("a.txt", "a\u00a0b c\nc a\u00a0b\n", {}, [("a\u00a0b", "c"), ("c", "a\u00a0b")]),
    "wide spaces": ("a.txt", "a\u3000b c\nc a\u3000b\n", {}, [("a\u3000b", "c"), ("c", "a\u3000b")]),
    "semicolons": ("a.csv", "source;target;kg\n1;2;0.5\n2; 1;3\n", {}, [(1, 2, 0.5), (2, 1, 3.0)]),
    "tabs in .txt": ("a.txt", "New York\tRio\nRio\tSan Jose\nSan Jose\tNew York\n", {"delimiter": "tab"}, None),
    "bars": ("a.txt", "1|2\n2|3\n3|1\n", {"delimiter": "|"}, RING),
    "bars between names": ("a.txt", "ann|bob\nbob | cid\ncid|ann\n", {"delimiter": "|"}, LINKS),
    "four columns": ("a.csv", "6,2,4,1289241911.7\n6,5,2,1289241941.5\n", {"columns": "1,2,3"}, [(6, 2, 4), (6, 5, 2)]),
    "columns by title": ("a.csv", "id,to,from\n7,2,1\n8,3,2\n9,1,3\n", {"columns": "from,to"}, RING),
    "columns as a list": ("a.csv", "id,to,from\n7,2,1\n8,3,2\n9,1,3\n", {"columns": ["from", 2]}, RING),
    "columns turned round": ("a.txt", "2 1 x\n3 2 y z\n1 3\n", {"columns": "2,1"}, RING),
    "columns of names": ("a.csv", 'id,who,"a, b",whom\n1,ann,"x, y",bob\n2,bob,,cid\n3,cid,z,ann\n', {"columns": "who,whom"}, LINKS),
    "columns behind quotes": ("a.csv", '1,"5,6,7",2\n2,"8,9",3\n3,x,1\n', {"columns": "1,3"}, RING),
    "weights first": ("a.csv", "kg,source,target\n0.5,ann,bob\n2,bob,cid\n", {"columns": "source,target,kg"}, [("ann", "bob", 0.5), ("bob", "cid", 2)]),
    "weights by columns, ignored": ("a.csv", "1,2,x\n2,3,y\n3,1,z\n", {"columns": "1,2,3", "weights": "ignore"}, RING),
    "arrows": ("a.txt", "1 -> 2\n2 -> 3\n3 -> 1\n", {"columns": "1,3"}, RING),
    "times": ("a.txt", "1 2 1082040961\n2 3 1082040962\n3 1 1082040963\n", {"columns": "1,2"}, RING),
    "times ignored": ("a.txt", "1 2 1082040961\n2 3 1082040962\n3 1 1082040963\n", {"weights": "ignore"}, RING),
    "times as weights": ("a.txt", "1 2 1082040961\n2 1 1082040963\n", {"columns": "1,2,3"}, [(1, 2, 1082040961), (2, 1, 1082040963)]),
    "DIMACS": ("a.txt", "c a graph\np edge 3 3\ne 1 2\ne 2 3\ne 3 1\n", {"columns": "2,3", "comments": "c", "header": "yes"}, RING),
    "names with a mark": ("a.csv", "source,target\nann,#py\n#py,#np\n#np,ann\n", {"comments": "none"}, [("#np", "ann"), ("#py", "#np"), ("ann", "#py")]),
    "names with a mark first": ("a.txt", "%7Efoo bar\nbar %7Efoo\nbar baz\n", {"comments": "none"}, [("%7Efoo", "bar"), ("bar", "%7Efoo"), ("bar", "baz")]),
    "names that are addresses": ("a.txt", "http://a //b\n//b http://a\nhttp://a c\n", {"comments": "none"}, [("//b", "http://a"), ("http://a", "//b"), ("http://a", "c")]),
    "comments by their mark": ("a.txt", "ann bob\n# x\nbob cid\ncid ann\n", {"comments": "#"}, LINKS),
    "comments of many words": ("a.txt", "# x\nann bob\n# two more words\n  % and indented ones\nbob cid\ncid ann\n", {}, LINKS),
    "comments among numbers": ("a.txt", "# 9 9\n1 2\n#5 6\n  % 7 8\n2 3\n3 1\n", {}, RING),
    "commented header": ("a.txt", "#source\ttarget\nann\tbob\nbob\tcid\ncid\tann\n", {}, LINKS),
    "counts": ("a.txt", "3 3\n1 2\n2 3\n3 1\n", {"header": "yes"}, RING),
    "counts of entries": ("a.txt", "3 3 2\n1 2 0.5\n2 1 2\n", {"header": "yes"}, [(1, 2, 0.5), (2, 1, 2)]),
    "counts above weights": ("a.txt", "c 2\n1 2 5\n2 1 7\n", {"header": "yes"}, [(1, 2, 5), (2, 1, 7)]),
    "one count": ("a.txt", "3\n1 2\n2 3\n3 1\n", {"header": "yes"}, RING),
    "one weighted edge": ("a.txt", "New York 5\n", {}, [("New", "York", 5)]),
    "no header": ("a.txt", "u v\n", {"header": "no"}, [("u", "v")]),
    "strange header": ("a.csv", "buyer,seller\nann,bob\nbob,cid\ncid,ann\n", {"header": "yes"}, LINKS),
    "strange header again": ("a.csv", "buyer,seller\nann,bob\nbuyer,seller\nbob,cid\ncid,ann\n", {"header": "yes"}, LINKS),
    "both directions": ("a.txt", "1 2\n2 2\n", {"symmetric": "expand"}, [(1, 2), (2, 1), (2, 2)]),
    "both directions of names": ("a.txt", "a b 2\nb b 1\n", {"symmetric": "expand"}, [("a", "b", 2), ("b", "a", 2), ("b", "b", 1)]),
    "zeros": ("a.txt", "1 2 0\n2 1 0.5\n1 1 -0.0\n", {"zero_weights": "drop"}, [(2, 1, 0.5)]),
    "zeros between names": ("a.txt", "a b 0\nb a 0.5\n", {"zero_weights": "drop"}, [("b", "a", 0.5)]),
    "exponents of whole numbers": ("a.txt", "1.000e+00 1.2e+01\n1.2e1 0.0E+00\n", {}, [(1, 12), (12, 0)]),
    "exponents with weights": ("a.txt", "  1.00e+00   2.00e+00   5.00e-01\n  2.00e+00   1.00e+00   1.25e+01\n", {}, [(1, 2, 0.5), (2, 1, 12.5)]),
    "counts that an edge has too": ("a.txt", "3 2\n1 2\n2 1\n2 3\n3 2\n", {"header": "yes"}, [(1, 2), (2, 1), (2, 3), (3, 2)]),
    "one count above weights": ("a.txt", "3 2\n1 2 0.5\n2 1 2\n", {"header": "yes"}, [(1, 2, 0.5), (2, 1, 2)]),
    "titles again between quotes": ("a.csv", 'source,target\nann,bob\n"source","target"\nbob,cid\ncid,ann\n', {}, LINKS),
    "titles again in another case": ("a.csv", "Source;Target\nann;bob\nsource;target\nbob;cid\ncid;ann\n", {"header": "yes"}, LINKS),
    "strange titles in another case": ("a.csv", "buyer,seller\nann,bob\nBuyer,Seller\nbob,cid\n", {"header": "yes"}, [("Buyer", "Seller"), ("ann", "bob"), ("bob", "cid")]),
    "an edge called as titles": ("a.csv", "ann,bob\nbob,ann\nfrom,to\n", {"header": "no"}, [("ann", "bob"), ("bob", "ann"), ("from", "to")]),
    "words that titles have too": ("a.txt", "from here\nhere to\nfrom to\n", {}, [("from", "here"), ("from", "to"), ("here", "to")]),
    "first edge a loop": ("a.csv", "ann,ann\nann,bob\nbob,cid\n", {}, [("ann", "ann"), ("ann", "bob"), ("bob", "cid")]),
    "titles after numbers of lines": ("a.csv", "id,giver,taker\n1,5,6\n2,6,7\n", {"columns": "giver,taker"}, [(5, 6), (6, 7)]),
    "spaces around names": ("a.csv", "source,target\nann,bob\u00a0\nbob,\u2009cid\u3000\n\ufeffcid,ann\n", {}, LINKS),
    "semicolons between quotes": ("a.csv", 'source;target\n"a;1";b\nb; "a;1" \n', {}, [("a;1", "b"), ("b", "a;1")]),
    "tabs between quotes": ("a.tsv", 'source\ttarget\n"a\t1"\tb c\nb c\t"a\t1"\n', {"delimiter": "tab"}, [("a\t1", "b c"), ("b c", "a\t1")]),
    "comments with another mark": ("a.txt", "-- made by hand\n1 2\n-- more\n2 3\n3 1\n", {"comments": "--"}, RING),
    "a sentence passed over": ("a.txt", "; made by hand\n1 2\n2 3\n3 1\n", {"header": "yes"}, RING),
    "two tabs": ("a.tsv", "1\t2\tx\n2\t3\ty\n3\t1\t\n", {"columns": "1,2"}, RING),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_read_right(folder, case):
    name, text, options, expected = READ[case]
    graph = cpms.load(write(folder, name, text), **options)
    if expected is None:
        assert [graph.node_id(i) for i in range(3)] == ["New York", "Rio", "San Jose"]
    else:
        assert edges_of(graph) == sorted(tuple(edge) for edge in expected)


REFUSED = {
    "arrows": ("a.txt", "1 -> 2\n2 -> 3\n", {}, "'->' stands between source and target.*--columns 1,3"),
    "arrows between names": ("a.txt", "a -> b\nb -> c\n", {"weights": "ignore"}, "--columns 1,3"),
    "triples": ("a.txt", "a likes b\nb likes c\n", {"weights": "ignore"}, "'likes' or 'b' may be the target.*--columns 1,2"),
    "words between numbers": ("a.txt", "1 likes 2\n2 likes 3\n", {}, "'likes' may be the target or a label.*--columns 1,3"),
    "constant first": ("a.txt", "e 1 2\ne 2 3\n", {}, "every line begins with 'e'.*--columns 2,3"),
    "four columns": ("a.csv", "6,2,4,7\n6,5,2,9\n", {}, "4 fields where 2 or 3 belong.*--columns 1,2"),
    "empty third": ("a.csv", "0,1,\n1,0,\n", {}, "3 fields, 1 of them empty.*--columns"),
    "adjacency": ("a.txt", "0 1 2 3\n1 2\n2 0 1\n", {}, "fields where .* belong.*--columns.*adjacency list"),
    "adjacency of twos and threes": ("a.txt", "0 1 2\n1 2\n2 0\n", {"weights": "ignore"}, "adjacency list"),
    "brackets": ("a.txt", "(1, 2)\n(2, 3)\n", {}, "brackets around"),
    "brackets of lists": ("a.csv", "[1,2],\n[2,3],\n", {}, "brackets around|fields, 1 of them empty"),
    "pointer": ("a.csv", "version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n", {}, "pointer of Git LFS.*git lfs pull"),
    "web page": ("a.txt", "<!DOCTYPE html>\n<html lang>\n", {}, "is HTML"),
    "matrix": ("a.txt", "%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 2\n", {}, "is a Matrix Market file.*mtx"),
    "counts": ("a.txt", "4 3\n1 2\n2 3\n3 1\n", {}, "'4 3' may be the numbers of nodes and of edges.*--header yes"),
    "counts in columns": ("a.txt", "4 3\n1 2\n2 3\n3 1\n", {"columns": "1,2"}, "'4 3' may be the numbers of nodes"),
    "counts of entries": ("a.txt", "3 3 2\n1 2 5\n2 1 2\n", {}, "'3 3 2' may be the numbers.*--header yes"),
    "counts above names": ("a.txt", "3 2\nann bob\nbob cid\n", {}, "'3 2' may be titles.*--header yes"),
    "one count": ("a.txt", "3\n1 2\n2 3\n3 1\n", {}, "line 1: 1 field where the lines below have 2.*--header yes"),
    "strange header": ("a.csv", "buyer,seller\nann,bob\nbob,cid\n", {}, "'buyer seller' may be titles.*--header yes.*--header no"),
    "strange header again": ("a.csv", "buyer,seller\nann,bob\nbuyer,seller\nbob,cid\n", {}, "'buyer seller' may be titles"),
    "strange header over columns": ("a.csv", "buyer,seller,x\nann,bob,1\nbob,cid,2\n", {"columns": "1,2"}, "'buyer seller' may"),
    "one number twice": ("a.txt", "a 1\nb 1.0\na b\n", {}, "'1' and '1.0' may be one node"),
    "one edge of names": ("a.txt", "New York\n", {}, "'New York' may be titles.*--header no"),
    "header like names": ("a.txt", "u v\nv w\nw u\n", {}, "'u v' may be titles or the names of two nodes.*--header"),
    "header like numbered names": ("a.txt", "node1 node2\nnode3 node4\nnode4 node3\n", {}, "may be titles or the names"),
    "node called as a title": ("a.csv", "from,to\n" + "ann,bob\n" * 200 + "from,ann\n", {}, "a node is called 'from'.*--header"),
    "header alone": ("a.csv", "source,target\n", {}, "the graph is empty.*taken for a header.*--header no"),
    "header with a number": ("a.txt", "n 5\n1 2\n2 3\n", {}, "'n' is not a node id.*--header yes"),
    "header of other columns": ("a.csv", "target,source\n1,2\n2,3\n", {}, "must come first.*--columns source,target"),
    "header too short": ("a.txt", '"from" "to"\n"1" "a" "b"\n"2" "b" "a"\n', {}, "2 fields where the lines below have 3|2 titles"),
    "header too short, asked for": ("a.txt", '"from" "to"\n"1" "a" "b"\n"2" "b" "a"\n', {"header": "yes"}, "2 titles above lines of 3.*--columns 2,3"),
    "times": ("a.txt", "1 2 1082040961\n2 3 1082040962\n", {}, "'1082040961', which may be times.*--columns 1,2.*--columns 1,2,3|'1082040961', which may be times"),
    "times in milliseconds": ("a.txt", "a b 1082040961000\nb a 1082040962000\n", {}, "may be times"),
    "strange title of times": ("a.csv", "source,target,when\n1,2,1082040961\n", {}, "may be times"),
    "title of times": ("a.csv", "source,target,Time_Stamp\n1,2,5\n", {}, "column 3 is called 'Time_Stamp'.*--columns 1,2"),
    "title of relations": ("a.csv", "head,tail,relation\na,b,5\nb,c,1\n", {}, "column 3 is called 'relation'"),
    "names with a mark": ("a.csv", "source,target\nann,#py\n#py,#np\n", {}, "line 3: '#py,#np' may be a comment or an edge.*--comments none"),
    "names with a mark first": ("a.txt", "%7Efoo bar\nbar %7Efoo\n", {}, "line 1: '%7Efoo bar' may be a comment or an edge"),
    "a node that is a mark": ("a.txt", "# the\nthe #\n", {}, "line 1: '# the' may be a comment or an edge"),
    "mark between tabs": ("a.tsv", "#\tof\nof\tthe\nthe\tof\n", {}, "line 1: .* may be a comment or an edge"),
    "addresses": ("a.txt", "http://a //b\n//b http://a\n", {}, "line 2: '//b http://a' may be a comment or an edge"),
    "comments alone": ("a.txt", "#a #b\n#b #c\n", {}, "the graph is empty.*--comments none"),
    "two delimiters": ("a.txt", "New York,Rio\nSan Jose,Lima\n", {}, "comma or space could separate its fields.*--delimiter comma or space"),
    "tabs and blanks": ("a.txt", "New York\tRio\nSan Jose\tLima\n", {}, "tab or space could separate its fields"),
    "open quote": ("a.tsv", 'a\tb\n"b\tc\n', {}, "nothing closes the quote of '\"b'"),
    "64 bits": ("a.txt", f"1 {2**60}\n", {}, "out of range.*--ids compact"),
    "more than 64 bits": ("a.txt", f"1 {2**63}\n", {"ids": "compact"}, "out of range; ids run from 0 to 9223372036854775807(\n|$)"),
    "decimals": ("a.txt", "1.5 2\n2 3\n", {"header": "no"}, "'1.5' is not a node id"),
    "exponents that lack digits": ("a.txt", "1.23e+05 2\n2 1.23e+05\n", {}, "'1.23e.05' is not a node id"),
    "exponents of fractions": ("a.txt", "1.25e+01 2\n2 3\n", {}, "'1.25e.01' is not a node id"),
    "counts turned round": ("a.txt", "3 4\n0 1\n1 2\n2 3\n", {}, "'3 4' may be the numbers of nodes and of edges.*--header yes"),
    "counts of both directions": ("a.txt", "3 2\n1 2\n2 1\n2 3\n3 2\n", {}, "'3 2' may be the numbers of nodes and of edges.*--header yes"),
    "other titles further down": ("a.csv", "source,target\nann,bob\nFrom,To\nbob,cid\n", {}, "the line 'From To' may hold titles.*--header yes or no"),
    "titles further down alone": ("a.csv", "ann,bob\nbob,cid\nsource,target\ncid,ann\n", {}, "the line 'source target' may hold titles.*--header yes or no"),
    "one title twice": ("a.csv", "node,node\nann,bob\nbob,cid\n", {}, "'node node' may be titles.*--header yes"),
    "numbers of lines first": ("a.csv", "id,giver,taker\n1,5,6\n2,6,7\n", {}, "column 1 is called 'id'.*--columns 2,3"),
    "years": ("a.txt", "1 2 1999\n2 3 2001\n", {}, "may be times.*--columns 1,2.*--weights ignore"),
    "days": ("a.txt", "1 2 20191231\n2 3 20200101\n", {}, "may be times.*--columns 1,2.*--weights ignore"),
    "numbers of edges": ("a.txt", "".join(f"{i} {i + 1} {i}\n" for i in range(8)), {}, "column 3 counts the lines.*--columns 1,2"),
    "decimal commas": ("a.csv", "Von;Nach;Gewicht\nann;bob;0,5\nbob;cid;1,5\n", {}, "'0,5' in column 3 has a decimal comma.*--columns 1,2"),
    "one number twice, decimal comma": ("a.csv", "source;target\n1;2,0\n2;3,0\n", {}, "'2' and '2,0' may be one node"),
    "triples of names": ("a.tsv", "ann\tknows\tbob\nbob\tlikes\tcid\n", {}, "'bob' is not a finite decimal number.*--columns 1,2 or 1,3"),
    "64 bits beyond compact": ("a.txt", f"1 {2**63}\n", {}, "out of range; ids run from 0 to 576460752303423487(\n|$)"),
    "binary": ("a.csv", b"Rar!\x1a\x07\x00\x00,\x01\n1,2\n", {}, r"line 1: control character '.x1a'"),
    "UTF-16": ("a.csv", "source,target\r\n1,2\r\n".encode("utf-16"), {}, "is UTF-16 text; save it as UTF-8"),
    "gzipped without .gz": ("a.txt", gzip.compress(b"1 2\n"), {}, "is gzipped; let its name end in .gz"),
    "spreadsheet": ("a.csv", b"PK\x03\x04\x14\x00\x06\x00,\n1,2\n", {}, "is a zip archive"),
    "spaces alone": ("a.csv", "source,target\nann,bob\n\u00a0,ann\n", {}, "a name consists of white space alone"),
    "names with marks alone below titles": ("a.csv", "source,target\n#a,#b\n#b,#a\n", {}, "--comments none"),
    "comment above with another mark": ("a.txt", "; made by hand\n1 2\n2 3\n", {}, "line 1: 4 fields where.*--header yes.*--comments MARK"),
    "no such title": ("a.csv", "id,to,from\n7,2,1\n", {"columns": "from,dest"}, "no column is called 'dest'; the first line holds 'id', 'to'"),
    "title without a header": ("a.csv", "from,to\n7,2\n", {"columns": "from,to", "header": "no"}, "chosen by title"),
    "too few columns": ("a.csv", "1,2,3\n1,2\n", {"columns": "1,3"}, "line 2: 2 fields where columns 1, 3 are chosen"),
    "too few columns far down": ("a.csv", "1,2,3\n" * 150 + "1,2\n", {"columns": "1,3"}, "line 151: 2 fields where source, target are columns 1, 3"),
    "too few names far down": ("a.csv", "a,b,c\n" * 150 + "a,b\n", {"columns": "1,3", "header": "no"}, "line 151: 2 fields where source, target are columns 1, 3"),
    "another delimiter": ("a.csv", "1,2\n2,3\n", {"columns": "1,2", "delimiter": "tab"}, "line 1: 1 field where columns 1, 2 are chosen"),
    "too few columns of names": ("a.csv", "a,b,c\na,b\n", {"columns": "1,3", "header": "no"}, "line 2: 2 fields where columns 1, 3 are chosen"),
    "empty field between tabs": ("a.tsv", "1\t2\n" * 150 + "1\t\t2\n", {}, "line 151: 3 fields where 2 belong"),
    "empty field in a column": ("a.tsv", "1\t2\tx\n2\t\tx\n", {"columns": "1,2"}, "line 2: .* 1 of them empty"),
    "two tabs in a row": ("a.tsv", "1\t2\n2\t\t3\n", {}, "tab or space could separate"),
    "form of a matrix": ("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 2\n", {"columns": "1,2"}, "columns can be chosen of edge lists alone"),
    "zeros": ("a.txt", "1 2 0\n2 1 0.5\n", {}, "weight 0.0.*--zero-weights drop"),
    "zeros between names": ("a.txt", "a b 0\nb a 0.5\n", {}, "weight 0.0.*--zero-weights drop"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_what_would_be_accepted(folder, case):
    name, text, options, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as caught:
        cpms.load(write(folder, name, text), **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
@pytest.mark.parametrize("value", [False, 0, -0.0, -1.5, np.inf])
def test_values_of_npz_that_are_no_weights(folder, layout, value):
    values = np.array([1, value, 1], type(value))
    matrix = scipy.sparse.coo_array((values, ([0, 1, 2], [1, 2, 0])), shape=(3, 3)).asformat(layout)
    path = folder / f"{layout}.npz"
    scipy.sparse.save_npz(path, matrix)
    with pytest.raises(InputError, match="--zero-weights drop" if value == 0 else "--weights ignore"):
        cpms.load(path)
    assert edges_of(cpms.load(path, weights="ignore")) == [(0, 1), (1, 2), (2, 0)]
    if value == 0:
        assert edges_of(cpms.load(path, zero_weights="drop")) == [(0, 1, 1), (2, 0, 1)]
    else:
        with pytest.raises(InputError, match="--weights ignore"):
            cpms.load(path, zero_weights="drop")


def test_a_comment_mark_of_two_dashes_on_the_command_line():
    parser = argparse.ArgumentParser()
    add_form_options(parser)
    assert parser.parse_args(["--comments=--"]).comments == "--"
    assert parser.parse_args(["--comments", "#"]).comments == "#"
