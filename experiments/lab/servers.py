"""How each server is started in the foreground on a configuration of the experiment."""

import subprocess

from .stage import EXPERIMENTS, REPOSITORY, installed, program

# Debian's modules that Apache needs for anything; an experiment adds its own.
APACHE_BASE = ["authz_core", "mime", "dir"]


def nginx(stage, template, name="nginx", **values):
    return http_server(stage, [program("nginx")], template, name, **values)


def brisk(stage, template, name="brisk", **values):
    """Brisk on the same file that nginx gets."""
    return http_server(stage, [stage.brisk], template, name, **values)


def http_server(stage, command, template, name, **values):
    """nginx or Brisk, with a port of its own and a folder for what is kept."""
    port = values.pop("PORT", None) or stage.port()
    data = stage.make(f"{name}-{port}")
    conf = stage.fill(
        template, f"{name}-{port}.conf", PORT=port, DATA=data, COMMON=common(stage, data), PARAMS=params(stage), **values
    )
    ready = values.get("READY", port)
    return port, stage.start(
        name, [*command, "-p", f"{data}/", "-c", conf, "-e", data / "error.log", "-g", "daemon off;"], ready
    )


def common(stage, data):
    """What each http block needs in order to touch nothing of the machine."""
    return str(stage.fill(EXPERIMENTS / "lab/http.conf", f"{data.name}-http.conf", DATA=data, MIME=mime(stage)))


def mime(stage):
    return stage.fill(REPOSITORY / "crates/brisk/src/mime.types", "mime.types")


def params(stage):
    return stage.fill(REPOSITORY / "packaging/fastcgi.conf", "fastcgi.conf")


def apache(stage, template, modules, name="apache", **values):
    """Debian's Apache with these modules and nothing else."""
    port, env = stage.port(), values.pop("ENV", None)
    data = stage.make(f"{name}-{port}")
    folder = installed("/usr/lib/apache2/modules", "Apache's modules")
    load = "\n".join(f"LoadModule {symbol(module)} {file_of(folder, module)}" for module in modules)
    conf = stage.fill(template, f"{name}-{port}.conf", PORT=port, DATA=data, MODULES=load, MIME=mime_types(stage), **values)
    return port, stage.start(name, [program("apache2"), "-d", data, "-f", conf, "-D", "FOREGROUND"], port, env)


def symbol(module):
    return "php_module" if module.startswith("php") else f"{module}_module"


def file_of(folder, module):
    if module.startswith("php"):
        return installed(f"{folder}/libphp*.so", "Apache's mod_php")
    return installed(f"{folder}/mod_{module}.so", f"Apache's mod_{module}")


def mime_types(stage):
    """nginx's table of types in the form that Apache reads."""
    lines = mime(stage).read_text().replace("\n", " ").partition("{")[2].partition("}")[0].split(";")
    return stage.write("mime.apache", "\n".join(" ".join(line.split()) for line in lines) + "\n")


def versions(*which):
    """What the machine has, in one line each, as the programs say it themselves."""
    ask = {
        "nginx": ([program("nginx"), "-v"], lambda text: text.split("/")[1].split()[0]) if "nginx" in which else None,
        "Apache": ([program("apache2"), "-v"], lambda text: text.split("/")[1].split()[0]) if "Apache" in which else None,
        "PHP": ([program("php", "php-cli"), "-v"], lambda text: text.split()[1]) if "PHP" in which else None,
        "MariaDB": ([program("mariadbd"), "--version"], lambda text: text.split("Ver ")[1].split()[0])
        if "MariaDB" in which
        else None,
    }
    if "Node" in which:
        ask["Node"] = ([program("node"), "--version"], lambda text: text.strip().lstrip("v"))
    if "Java" in which:
        ask["Java"] = ([program("java"), "-version"], lambda text: text.split('"')[1])
    said = []
    for name in which:
        command, pick = ask[name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        said.append(f"{name} {pick(done.stdout + done.stderr)}")
    return said


def certificate(stage):
    """A certificate of the stage's own, and its key; made once."""
    chain, key = stage.folder / "chain.pem", stage.folder / "key.pem"
    if not chain.exists():
        command = [program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        command += ["-subj", "/CN=localhost", "-days", "2", "-keyout", key, "-out", chain]
        subprocess.run(command, check=True, capture_output=True)
        stage.give(key)
        stage.give(chain)
    return {"CHAIN": chain, "KEY": key}
