/* SPDX-License-Identifier: Apache-2.0 */
/* Basics.hpp: types that the other headers of this stand-in share: strings and arrays that are
 * passed by reference, element types, options, names for debugging, and exceptions. */
#ifndef POPLAR_BASICS_HPP
#define POPLAR_BASICS_HPP

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#define POPLAR_API __attribute__((visibility("default")))

namespace poplar {

class POPLAR_API StringRef {
  public:
    StringRef(const char *text) : text(text)
    {
    }
    StringRef(const std::string &text) : text(text)
    {
    }
    operator std::string() const
    {
        return text;
    }

  private:
    std::string text;
};

template <typename T> class ArrayRef {
  public:
    ArrayRef()
    {
    }
    ArrayRef(const std::vector<T> &v) : first(v.data()), count(v.size())
    {
    }
    ArrayRef(std::initializer_list<T> v) : first(v.begin()), count(v.size())
    {
    }
    ArrayRef(const T *data, std::size_t size) : first(data), count(size)
    {
    }
    const T *data() const
    {
        return first;
    }
    std::size_t size() const
    {
        return count;
    }
    const T *begin() const
    {
        return first;
    }
    const T *end() const
    {
        return first + count;
    }
    const T &operator[](std::size_t i) const
    {
        return first[i];
    }

  private:
    const T *first = nullptr;
    std::size_t count = 0;
};

class POPLAR_API Type {
  public:
    Type()
    {
    }
    explicit Type(int number) : number(number)
    {
    }
    bool operator==(const Type &other) const
    {
        return number == other.number;
    }
    bool operator!=(const Type &other) const
    {
        return number != other.number;
    }
    std::string toString() const;
    int number = -1; /* the stand-in's own */
};
extern POPLAR_API const Type BOOL, CHAR, UNSIGNED_CHAR, SIGNED_CHAR, INT, UNSIGNED_INT, HALF, FLOAT;

class POPLAR_API OptionFlags {
  public:
    OptionFlags()
    {
    }
    OptionFlags(std::initializer_list<std::pair<const std::string, std::string>> list) : flags(list)
    {
    }
    void set(StringRef option, StringRef value)
    {
        flags[std::string(option)] = std::string(value);
    }
    std::map<std::string, std::string> flags; /* the stand-in's own */
};

class POPLAR_API DebugContext {
  public:
    DebugContext()
    {
    }
    DebugContext(const char *name) : name(name)
    {
    }
    DebugContext(const std::string &name) : name(name)
    {
    }
    std::string name; /* the stand-in's own */
};

struct POPLAR_API poplar_error : std::runtime_error {
    explicit poplar_error(const std::string &text) : std::runtime_error(text)
    {
    }
};
struct POPLAR_API graph_memory_allocation_error : poplar_error {
    explicit graph_memory_allocation_error(const std::string &text) : poplar_error(text)
    {
    }
};
struct POPLAR_API stream_connection_error : poplar_error {
    explicit stream_connection_error(const std::string &text) : poplar_error(text)
    {
    }
};
struct POPLAR_API runtime_error : poplar_error {
    explicit runtime_error(const std::string &text) : poplar_error(text)
    {
    }
};
struct POPLAR_API application_runtime_error : runtime_error {
    explicit application_runtime_error(const std::string &text) : runtime_error(text)
    {
    }
};
struct POPLAR_API system_runtime_error : runtime_error {
    explicit system_runtime_error(const std::string &text) : runtime_error(text)
    {
    }
};
struct POPLAR_API recoverable_runtime_error : system_runtime_error {
    explicit recoverable_runtime_error(const std::string &text) : system_runtime_error(text)
    {
    }
};
struct POPLAR_API unrecoverable_runtime_error : system_runtime_error {
    explicit unrecoverable_runtime_error(const std::string &text) : system_runtime_error(text)
    {
    }
};

} // namespace poplar

#endif
