# SPDX-License-Identifier: Apache-2.0
"""The names of ONNX Runtime's Python API that scripts use to run models, on devices of Backplane.

    import backplane.onnxruntime as onnxruntime      # in place of `import onnxruntime`
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    outputs = session.run(None, {session.get_inputs()[0].name: array})

A provider chooses a device: CPUExecutionProvider cpu, CUDAExecutionProvider cuda, ROCMExecutionProvider hip, and
BackplaneExecutionProvider the one of its option `device`, or the default device. Options that only tune a session are
accepted and have no effect; those that request a result of their own (profiles, optimised model files, custom
operators) raise NotImplementedError.
"""
import warnings

from . import _backplane, _host
from ._backplane import Device, Error, Model, Tensor, __version__  # noqa: F401

NAME = "BackplaneExecutionProvider"
CPU = "CPUExecutionProvider"
KINDS = {"CUDAExecutionProvider": "cuda", "ROCMExecutionProvider": "hip", CPU: "cpu"}
TYPES = {"bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
         "u32": "uint32", "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float", "f64": "double",
         "c64": "complex64", "c128": "complex128", "f8e4m3": "float8e4m3fn", "f8e5m2": "float8e5m2",
         "f8e4m3fnuz": "float8e4m3fnuz", "f8e5m2fnuz": "float8e5m2fnuz"}


class GraphOptimizationLevel:
    ORT_DISABLE_ALL, ORT_ENABLE_BASIC, ORT_ENABLE_EXTENDED, ORT_ENABLE_ALL = 0, 1, 2, 99


class ExecutionMode:
    ORT_SEQUENTIAL, ORT_PARALLEL = 0, 1


class _Options:
    """Options with defaults; a name that is not among them is an error."""

    _defaults = {}

    def __init__(self):
        self.__dict__.update(self._defaults, _entries={})

    def __setattr__(self, name, value):
        if name not in self._defaults:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}; it has {', '.join(self._defaults)}")
        self.__dict__[name] = value


class SessionOptions(_Options):
    """Options of a session. None of them changes a result."""

    _defaults = {"enable_cpu_mem_arena": True, "enable_mem_pattern": True, "enable_mem_reuse": True, "enable_profiling": False,
                 "execution_mode": ExecutionMode.ORT_SEQUENTIAL, "execution_order": 0, "inter_op_num_threads": 0,
                 "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL, "intra_op_num_threads": 0, "logid": "",
                 "log_severity_level": 2, "log_verbosity_level": 0, "optimized_model_filepath": "",
                 "profile_file_prefix": "onnxruntime_profile_", "use_deterministic_compute": False, "use_per_session_threads": True}

    def add_session_config_entry(self, key, value):
        self._entries[key] = value

    def get_session_config_entry(self, key):
        return self._entries[key]

    def register_custom_ops_library(self, path):
        raise NotImplementedError(f"{path}: custom operators of ONNX Runtime need ONNX Runtime; a plugin of Backplane can have operators")

    def _check(self):
        for name in ("enable_profiling", "optimized_model_filepath"):
            if self.__dict__[name]:
                raise NotImplementedError(f"sessions of Backplane have no {name}")


class RunOptions(_Options):
    """Options of a run. None of them changes a result."""

    _defaults = {"log_severity_level": 2, "log_verbosity_level": 0, "logid": "", "only_execute_path_to_fetches": False,
                 "terminate": False, "training_mode": False}

    def add_run_config_entry(self, key, value):
        self._entries[key] = value

    def get_run_config_entry(self, key):
        return self._entries[key]


class NodeArg:
    """An input or output: name, type as "tensor(float)", and shape, a list of numbers, names and None."""

    def __init__(self, port):
        name, dtype, shape = port
        self.name, self.type = name, f"tensor({TYPES.get(dtype, dtype)})" if dtype else ""
        self.shape = None if shape is None else list(shape)

    def __repr__(self):
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


class ModelMetadata:
    def __init__(self, info):
        self.producer_name, self.graph_name, self.domain = info["producer"], info["graph_name"], info["domain"]
        self.description, self.graph_description, self.version = info["doc"], info["graph_doc"], info["model_version"]
        self.custom_metadata_map = info["metadata"]


class OrtValue:
    """A tensor on a device."""

    def __init__(self, tensor):
        self._tensor = tensor

    @staticmethod
    def ortvalue_from_numpy(array, device_type="cpu", device_id=0):
        return OrtValue(_backplane.asarray(array, None, _device(device_type, device_id), True))

    @staticmethod
    def ortvalue_from_shape_and_type(shape, element_type, device_type="cpu", device_id=0):
        import numpy
        return OrtValue(_backplane.empty(tuple(shape), numpy.dtype(element_type).name, _device(device_type, device_id)))

    def numpy(self):
        return _host.to_numpy(self._tensor).copy()

    def shape(self):
        return list(self._tensor.shape)

    def data_type(self):
        return f"tensor({TYPES[self._tensor.dtype]})"

    def device_name(self):
        return self._tensor.device.name.partition(":")[0]

    def data_ptr(self):
        return self._tensor.address

    def has_value(self):
        return True

    def is_tensor(self):
        return True

    def update_inplace(self, array):
        self._tensor[...] = array


class IOBinding:
    """Inputs and outputs of runs, which stay on their devices."""

    def __init__(self, session):
        self._session, self._inputs, self._outputs, self._values = session, {}, {}, []

    def bind_cpu_input(self, name, array):
        self._inputs[name] = _backplane.asarray(array, None, "cpu", True)

    def bind_ortvalue_input(self, name, value):
        self._inputs[name] = value._tensor

    def bind_input(self, name, *_args, **_more):
        raise NotImplementedError(f"{name}: addresses cannot be bound; bind_ortvalue_input() and run() take tensors, also of "
                                  "other packages (backplane.from_dlpack)")

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None):
        if buffer_ptr is not None:
            raise NotImplementedError(f"{name}: addresses cannot be bound; bind_ortvalue_output() takes tensors")
        self._outputs[name] = _device(device_type, device_id)

    def bind_ortvalue_output(self, name, value):
        self._outputs[name] = value._tensor

    def clear_binding_inputs(self):
        self._inputs.clear()

    def clear_binding_outputs(self):
        self._outputs.clear()

    def synchronize_inputs(self):
        self._session._model.device.synchronize()

    synchronize_outputs = synchronize_inputs

    def get_outputs(self):
        return list(self._values)

    def copy_outputs_to_cpu(self):
        return [value.numpy() for value in self._values]

    def _run(self):
        names = list(self._outputs)
        made = self._session._run(names, self._inputs)
        self._values = []
        for name, tensor in zip(names, made):
            where = self._outputs[name]
            if isinstance(where, Tensor):
                where[...] = tensor.to(where.device)
                tensor = where
            self._values.append(OrtValue(tensor if isinstance(where, Tensor) else tensor.to(where)))


class InferenceSession:
    """A model on a device, with the members of ONNX Runtime's class of this name."""

    def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, **kwargs):
        unknown = sorted(set(kwargs) - {"disabled_optimizers", "enable_fallback"})
        if unknown:
            raise TypeError(f"InferenceSession has no argument {unknown[0]!r}")
        self._options = sess_options or SessionOptions()
        self._options._check()
        self._providers, device, cache = _choose(providers, provider_options)
        self._model_path = None if isinstance(path_or_bytes, bytes) else path_or_bytes
        self._model = Model(path_or_bytes, device, cache=cache)
        self._inputs, self._outputs = ([NodeArg(port) for port in ports] for ports in (self._model.inputs, self._model.outputs))

    def get_inputs(self):
        return list(self._inputs)

    def get_outputs(self):
        return list(self._outputs)

    def get_overridable_initializers(self):
        return []

    def get_modelmeta(self):
        return ModelMetadata(self._model.info())

    def get_session_options(self):
        return self._options

    def get_providers(self):
        return list(self._providers)

    def get_provider_options(self):
        return {name: dict(options) for name, options in self._providers.items()}

    def set_providers(self, providers=None, provider_options=None):
        """Loads the model again if the providers choose another device."""
        chosen, device, cache = _choose(providers, provider_options)
        if device.name != self._model.device.name:
            if self._model_path is None:
                raise NotImplementedError("a model from bytes cannot change its device: make a new session")
            self._model = Model(self._model_path, device, cache=cache)
        self._providers = chosen

    def disable_fallback(self):
        """Does nothing: a session of Backplane never changes its providers by itself."""

    enable_fallback = disable_fallback

    def run(self, output_names, input_feed, run_options=None):
        """A list of arrays: the named outputs, or all of them for None."""
        if run_options is not None and run_options.terminate:
            raise RuntimeError("the run options say terminate")
        return [None if tensor is None else _host.to_numpy(tensor) for tensor in self._run(output_names, input_feed)]

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None):
        return [OrtValue(tensor) for tensor in self._run(output_names, input_dict_ort_values)]

    def io_binding(self):
        return IOBinding(self)

    def run_with_iobinding(self, iobinding, run_options=None):
        iobinding._run()

    def _run(self, names, feeds):
        missing = [port.name for port in self._inputs if port.name not in feeds]
        unknown = [name for name in feeds if not any(port.name == name for port in self._inputs)]
        if missing or unknown:
            raise ValueError(f"the inputs {missing} are missing, and the model has no inputs {unknown}; its inputs are "
                             f"{[port.name for port in self._inputs]}")
        given = {name: value._tensor if isinstance(value, OrtValue) else value for name, value in feeds.items()}
        made = self._model.run(list(names) if names else None,
                               {name: value if isinstance(value, Tensor) else _backplane.asarray(value, None, self._model.device)
                                for name, value in given.items()})
        return made


def _device(kind, number=0):
    names = {"gpu": ("cuda", "hip")}.get(kind, (kind,))
    found = next((name for name in names if _exists(f"{name}:{number}")), names[0])
    return Device(f"{found}:{number}")


def _exists(name):
    try:
        Device(name)
    except Error:
        return False
    return True


def _choose(providers, provider_options):
    """({name: options} of the providers that are there, the device of the first, the folder of its programs)."""
    pairs = [(entry, {}) if isinstance(entry, str) else (entry[0], dict(entry[1])) for entry in providers or [NAME]]
    if provider_options:
        if len(provider_options) != len(pairs):
            raise ValueError("provider_options has another length than providers")
        pairs = [(name, dict(options or {})) for (name, _), options in zip(pairs, provider_options)]
    chosen = []
    for name, options in pairs:
        where = options.get("device") or _host.default_device_name() if name == NAME else \
            f"{KINDS[name]}:{options.get('device_id', 0)}" if name in KINDS else None
        if name == NAME and set(options) - {"device", "cache"}:
            raise ValueError(f"{NAME} has the options device and cache here, not {', '.join(sorted(options))}")
        if where is None or name != NAME and not _exists(where):
            warnings.warn(f"the provider {name} is not available; there are {', '.join(get_available_providers())}")
            continue
        chosen.append((name, options, where))
    if not chosen:
        chosen = [(CPU, {}, "cpu")]
    found = {name: {key: str(value) for key, value in options.items()} for name, options, _ in chosen}
    found.setdefault(CPU, {})
    return found, Device(chosen[0][2]), chosen[0][1].get("cache")


def get_available_providers():
    """The providers whose devices are there."""
    return [NAME, *(name for name, kind in KINDS.items() if _exists(f"{kind}:0"))]


get_all_providers = get_available_providers


def get_device():
    return "GPU" if _exists("cuda:0") or _exists("hip:0") else "CPU"


def set_default_logger_severity(_severity):
    """Does nothing: the variable BP_LOG sets what Backplane writes."""


def set_default_logger_verbosity(_verbosity):
    """Does nothing, as set_default_logger_severity()."""


def set_seed(seed):
    """Seeds the random operators of the current stream."""
    _backplane.Device(_host.default_device_name()).stream.set_generator(_backplane.Generator(seed))
