"""What rabbitmqadmin v2 and rabbitmqctl do with the commands that overdue prints, over the management API; knows no others.

rabbitmq_tools.py rabbitmqadmin|rabbitmqctl WORD...; MANAGEMENT_URL has the address, user and password.
"""

import base64
import json
import os
import sys
import urllib.parse
import urllib.request


def call(how, *path):
    url = urllib.parse.urlsplit(os.environ["MANAGEMENT_URL"])
    login = ":".join(urllib.parse.unquote(it or "") for it in (url.username, url.password))
    names = "/".join(urllib.parse.quote(it, safe="") for it in path)
    request = urllib.request.Request(f"{url.scheme}://{url.hostname}:{url.port}/api/{names}", method=how)
    request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read() or "null")


def rabbitmqadmin(words):
    options, command = {}, []
    words = iter(words)
    for word in words:
        if not word.startswith("--"):
            command.append(word)
            continue
        name, joined, value = word.partition("=")
        options[name] = value if joined else next(words)
    vhost = options.pop("--vhost")
    if command == ["exchanges", "delete"]:
        call("DELETE", "exchanges", vhost, options.pop("--name"))
    elif command == ["bindings", "delete"]:
        kind = {"queue": "q", "exchange": "e"}[options.pop("--destination-type")]
        path = ["bindings", vhost, "e", options.pop("--source"), kind, options.pop("--destination")]
        wanted = (options.pop("--routing-key"), json.loads(options.pop("--arguments", "{}")))
        found = [it for it in call("GET", *path) if (it["routing_key"], it["arguments"]) == wanted]
        (binding,) = found
        call("DELETE", *path, binding["properties_key"])
    else:
        sys.exit(f"no such command: {command}")
    if options:
        sys.exit(f"no such options: {options}")


def rabbitmqctl(words):
    match words:
        case ["clear_policy", "-p", vhost, name]:
            call("DELETE", "policies", vhost, name)
        case ["clear_operator_policy", "-p", vhost, name]:
            call("DELETE", "operator-policies", vhost, name)
        case ["add_vhost", name]:
            call("PUT", "vhosts", name)
        case _:
            sys.exit(f"no such command: {words}")


{"rabbitmqadmin": rabbitmqadmin, "rabbitmqctl": rabbitmqctl}[sys.argv[1]](sys.argv[2:])
