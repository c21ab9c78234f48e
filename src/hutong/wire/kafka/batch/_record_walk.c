/* The walks of record_walk.py, compiled: the same arguments, the same results, the same sentences in errors.

   Strategy: one pass over the bytes with a position that only grows. No byte is read before its position is compared
   with the size, no sum is formed that could overflow, and nothing is allocated while walking: of the records at fault
   the first RECORDS_NAMED_MAX are kept on the stack. The reference explains the rules; this file says where C differs.

   Only Python's limited API is used (PEP 384), so that one build serves Python 3.11 and every later one. */

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#define CONTRACT 2 /* as in record_walk.py: a change of arguments, results or rules counts one up in both */
#define RECORD_BYTES_MIN 7
#define RECORDS_NAMED_MAX 100
#define NO_TIMESTAMP (-1)
#define VARINT_SHIFT_MAX 28
#define VARLONG_SHIFT_MAX 63

/* Other threads run during walks over more bytes than this. Below, giving the interpreter's lock away and taking it
   again would cost more than the walk. */
#define HELD_LOCK_BYTES_MAX (64 * 1024)

typedef struct {
    const uint8_t *data;
    int64_t size;
    int64_t position;
    int64_t base_timestamp_ms;
} Walk;

typedef struct {
    int64_t timestamp_ms;
    int32_t offset_delta;
    bool has_key;
} Record;

/* A fault is its sentence; NULL stands for none. */
typedef const char *Fault;

static const char CUT_OFF[] = "it is cut off";
static const char LENGTH[] = "its length does not fit";
static const char TIMESTAMP[] = "its timestamp does not fit 64 bits";
static const char HEADER_COUNT[] = "its header count does not fit";
static const char HEADER_KEY[] = "a header has no key";
static const char NOT_FILLED[] = "its fields do not fill its length";
static const char NEGATIVE[] = "a field has a negative length";
static const char FIELD[] = "a field does not fit it";
static const char VARINT_LONG[] = "a varint is longer than 5 bytes";
static const char VARINT_WIDE[] = "a varint does not fit 32 bits";
static const char VARLONG_LONG[] = "a varint is longer than 10 bytes";
static const char VARLONG_WIDE[] = "a varint does not fit 64 bits";

/* ---- one record ---- */

/* Zig-zag to two's complement without shifting a negative number, which C leaves undefined. */
static inline int32_t signed_32(uint32_t number)
{
    return number & 1 ? -(int32_t)(number >> 1) - 1 : (int32_t)(number >> 1);
}

static inline int64_t signed_64(uint64_t number)
{
    return number & 1 ? -(int64_t)(number >> 1) - 1 : (int64_t)(number >> 1);
}

static Fault read_long_varint(Walk *walk, int32_t *out)
{
    uint64_t number = 0;
    for (int shift = 0; shift <= VARINT_SHIFT_MAX; shift += 7) {
        if (walk->position >= walk->size)
            return CUT_OFF;
        uint8_t byte = walk->data[walk->position++];
        number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            if (number > UINT32_MAX)
                return VARINT_WIDE;
            *out = signed_32((uint32_t)number);
            return NULL;
        }
    }
    return VARINT_LONG;
}

/* Nearly every varint of a record is one byte. */
static inline Fault read_varint(Walk *walk, int32_t *out)
{
    if (walk->position < walk->size && walk->data[walk->position] < 128) {
        *out = signed_32(walk->data[walk->position++]);
        return NULL;
    }
    return read_long_varint(walk, out);
}

static inline Fault read_varlong(Walk *walk, int64_t *out)
{
    uint64_t number = 0;
    for (int shift = 0; shift <= VARLONG_SHIFT_MAX; shift += 7) {
        if (walk->position >= walk->size)
            return CUT_OFF;
        uint8_t byte = walk->data[walk->position++];
        if (byte < 128) {
            if (shift == VARLONG_SHIFT_MAX && byte > 1)
                return VARLONG_WIDE;
            *out = signed_64(number | (uint64_t)byte << shift);
            return NULL;
        }
        /* Of a tenth byte that is not the last only bit 0 fits; the number is refused all the same. */
        number |= (uint64_t)(byte & 127) << shift;
    }
    return VARLONG_LONG;
}

/* The length of a field and the field. A null field (-1) takes no bytes. */
static inline Fault skip_field(Walk *walk, int64_t end, int32_t *length)
{
    Fault fault = read_varint(walk, length);
    if (fault)
        return fault;
    if (*length < -1)
        return NEGATIVE;
    if (*length > end - walk->position)
        return FIELD;
    if (*length > 0)
        walk->position += *length;
    return NULL;
}

static Fault skip_headers(Walk *walk, int64_t end)
{
    int32_t count, length;
    Fault fault = read_varint(walk, &count);
    if (fault)
        return fault;
    if (count < 0 || count > end - walk->position)
        return HEADER_COUNT;
    for (; count > 0; count--) {
        fault = read_varint(walk, &length);
        if (fault)
            return fault;
        if (length < 0)
            return HEADER_KEY;
        if (length > end - walk->position)
            return FIELD;
        walk->position += length;
        fault = skip_field(walk, end, &length);
        if (fault)
            return fault;
    }
    return NULL;
}

/* Moves the position behind the record. After a fault it is anywhere from 0 to the size. */
static inline Fault read_record(Walk *walk, Record *record)
{
    int32_t length;
    int64_t delta_ms;
    Fault fault = read_varint(walk, &length);
    if (fault)
        return fault;
    if (length < RECORD_BYTES_MIN - 1 || length > walk->size - walk->position)
        return LENGTH;
    int64_t end = walk->position + length;
    walk->position++; /* the attributes, unused */
    if ((fault = read_varlong(walk, &delta_ms)))
        return fault;
    int64_t base_ms = walk->base_timestamp_ms;
    if (delta_ms > 0 ? base_ms > INT64_MAX - delta_ms : base_ms < INT64_MIN - delta_ms)
        return TIMESTAMP;
    record->timestamp_ms = base_ms + delta_ms;
    if ((fault = read_varint(walk, &record->offset_delta)))
        return fault;
    if ((fault = skip_field(walk, end, &length)))
        return fault;
    record->has_key = length >= 0;
    if ((fault = skip_field(walk, end, &length)))
        return fault;
    if ((fault = skip_headers(walk, end)))
        return fault;
    return walk->position == end ? NULL : NOT_FILLED;
}

/* ---- the walks, which run without the interpreter ---- */

typedef struct {
    Fault fault;
    int64_t index; /* of the record at fault */
    bool is_misplaced;
    int32_t offset_delta; /* of a misplaced record */
} Outcome;

typedef struct {
    int64_t indexes[RECORDS_NAMED_MAX];
    int count;
} Named;

typedef struct {
    int64_t greatest_ms;
    Named keyless;
    Named untimely;
} Contents;

static inline void add_name(Named *named, int64_t index)
{
    if (named->count < RECORDS_NAMED_MAX)
        named->indexes[named->count++] = index;
}

static Outcome examine(Walk *walk, int64_t count, int64_t earliest_ms, int64_t latest_ms, Contents *contents)
{
    Record record;
    for (int64_t index = 0; index < count; index++) {
        Fault fault = read_record(walk, &record);
        if (fault)
            return (Outcome){.fault = fault, .index = index};
        if (record.offset_delta != index)
            return (Outcome){.index = index, .is_misplaced = true, .offset_delta = record.offset_delta};
        if (record.timestamp_ms > contents->greatest_ms)
            contents->greatest_ms = record.timestamp_ms;
        if (!record.has_key)
            add_name(&contents->keyless, index);
        if ((record.timestamp_ms < earliest_ms || record.timestamp_ms > latest_ms)
            && record.timestamp_ms != NO_TIMESTAMP)
            add_name(&contents->untimely, index);
    }
    return (Outcome){0};
}

typedef struct {
    bool is_first; /* the first from `from_ms` on ends the search; else the greatest of all is looked for */
    int64_t from_ms;
    int64_t least;
    int64_t end;
    bool is_found;
    int64_t timestamp_ms;
    int64_t offset_delta;
} Search;

static Outcome search(Walk *walk, int64_t count, Search *wanted)
{
    Record record;
    for (int64_t index = 0; index < count; index++) {
        Fault fault = read_record(walk, &record);
        if (fault)
            return (Outcome){.fault = fault, .index = index};
        bool is_better = wanted->is_first ? record.timestamp_ms >= wanted->from_ms
                                          : !wanted->is_found || record.timestamp_ms > wanted->timestamp_ms;
        if (!is_better || record.offset_delta < wanted->least || record.offset_delta >= wanted->end)
            continue;
        wanted->is_found = true;
        wanted->timestamp_ms = record.timestamp_ms;
        wanted->offset_delta = record.offset_delta;
        if (wanted->is_first)
            break;
    }
    return (Outcome){0};
}

/* ---- from Python and to it ---- */

typedef struct {
    PyObject *protocol_error;
    PyTypeObject *contents_type;
} State;

static PyStructSequence_Field contents_fields[] = {
    {"greatest_timestamp_ms", NULL}, {"keyless", NULL}, {"untimely", NULL}, {NULL, NULL}};

static PyStructSequence_Desc contents_description = {
    "hutong.wire.kafka.batch._record_walk.RecordContents", NULL, contents_fields, 3};

static bool read_numbers(PyObject *const *arguments, Py_ssize_t given, int64_t *numbers, Py_ssize_t wanted)
{
    if (given != wanted + 1) {
        PyErr_Format(PyExc_TypeError, "%zd arguments are needed, %zd were given", wanted + 1, given);
        return false;
    }
    for (Py_ssize_t index = 0; index < wanted; index++) {
        numbers[index] = PyLong_AsLongLong(arguments[index + 1]);
        if (numbers[index] == -1 && PyErr_Occurred())
            return false;
    }
    return true;
}

/* The first three numbers are start, record count and base timestamp. Raises where so many records cannot fit. */
static bool begin(Walk *walk, PyObject *module, const Py_buffer *buffer, const int64_t *numbers)
{
    int64_t start = numbers[0], count = numbers[1], size = buffer->len;
    if (start < 0 || start > size || count < 0 || count > (size - start) / RECORD_BYTES_MIN) {
        State *state = PyModule_GetState(module);
        PyErr_Format(state->protocol_error, "%lld records do not fit %lld bytes", (long long)count,
                     start < 0 || start > size ? 0LL : (long long)(size - start));
        return false;
    }
    *walk = (Walk){.data = buffer->buf, .size = size, .position = start, .base_timestamp_ms = numbers[2]};
    return true;
}

/* True if the outcome is free of faults. `is_whole`: the records must end where the data ends. */
static bool check(PyObject *module, const Walk *walk, const Outcome *outcome, bool is_whole)
{
    State *state = PyModule_GetState(module);
    if (outcome->fault)
        PyErr_Format(state->protocol_error, "record %lld: %s", (long long)outcome->index, outcome->fault);
    else if (outcome->is_misplaced)
        PyErr_Format(state->protocol_error, "record %lld: its offset delta is %d", (long long)outcome->index,
                     (int)outcome->offset_delta);
    else if (is_whole && walk->position != walk->size)
        PyErr_Format(state->protocol_error, "%lld bytes follow the last record",
                     (long long)(walk->size - walk->position));
    else
        return true;
    return false;
}

static PyObject *names(const Named *named)
{
    PyObject *tuple = PyTuple_New(named->count);
    for (int index = 0; tuple && index < named->count; index++) {
        PyObject *number = PyLong_FromLongLong(named->indexes[index]);
        if (!number || PyTuple_SetItem(tuple, index, number) < 0) /* takes the reference, even when it fails */
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *make_contents(PyObject *module, const Contents *contents)
{
    State *state = PyModule_GetState(module);
    PyObject *found = PyStructSequence_New(state->contents_type);
    PyObject *fields[3] = {PyLong_FromLongLong(contents->greatest_ms), names(&contents->keyless),
                           names(&contents->untimely)};
    bool is_complete = found != NULL;
    for (int index = 0; index < 3; index++) {
        is_complete = is_complete && fields[index];
        if (found && fields[index])
            PyStructSequence_SetItem(found, index, fields[index]);
        else
            Py_XDECREF(fields[index]);
    }
    if (!is_complete)
        Py_CLEAR(found);
    return found;
}

/* True if all records are sound; else a Python error is set. */
static bool run_examine(PyObject *module, PyObject *data, const int64_t *numbers, Contents *contents)
{
    Py_buffer buffer;
    Walk walk;
    Outcome outcome;
    bool is_sound = false;
    if (PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) < 0)
        return false;
    if (begin(&walk, module, &buffer, numbers)) {
        contents->greatest_ms = NO_TIMESTAMP;
        contents->keyless.count = contents->untimely.count = 0;
        if (walk.size - walk.position > HELD_LOCK_BYTES_MAX) {
            Py_BEGIN_ALLOW_THREADS
            outcome = examine(&walk, numbers[1], numbers[3], numbers[4], contents);
            Py_END_ALLOW_THREADS
        } else {
            outcome = examine(&walk, numbers[1], numbers[3], numbers[4], contents);
        }
        is_sound = check(module, &walk, &outcome, true);
    }
    PyBuffer_Release(&buffer);
    return is_sound;
}

static PyObject *examine_records(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    int64_t numbers[5];
    Contents contents;
    if (!read_numbers(arguments, given, numbers, 5) || !run_examine(module, arguments[0], numbers, &contents))
        return NULL;
    return make_contents(module, &contents);
}

static PyObject *greatest_timestamp(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    int64_t numbers[5];
    Contents contents;
    if (!read_numbers(arguments, given, numbers, 3))
        return NULL;
    numbers[3] = INT64_MIN;
    numbers[4] = INT64_MAX;
    if (!run_examine(module, arguments[0], numbers, &contents))
        return NULL;
    return PyLong_FromLongLong(contents.greatest_ms);
}

static PyObject *run_search(PyObject *module, PyObject *data, const int64_t *numbers, Search *wanted)
{
    Py_buffer buffer;
    Walk walk;
    Outcome outcome;
    PyObject *found = NULL;
    if (PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    if (begin(&walk, module, &buffer, numbers)) {
        Py_BEGIN_ALLOW_THREADS
        outcome = search(&walk, numbers[1], wanted);
        Py_END_ALLOW_THREADS
        bool is_whole = !(wanted->is_first && wanted->is_found);
        if (!check(module, &walk, &outcome, is_whole))
            found = NULL;
        else if (wanted->is_found)
            found = Py_BuildValue("(LL)", (long long)wanted->timestamp_ms, (long long)wanted->offset_delta);
        else
            found = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&buffer);
    return found;
}

static PyObject *first_from(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    int64_t numbers[6];
    if (!read_numbers(arguments, given, numbers, 6))
        return NULL;
    Search wanted = {.is_first = true, .from_ms = numbers[3], .least = numbers[4], .end = numbers[5]};
    return run_search(module, arguments[0], numbers, &wanted);
}

static PyObject *greatest_in(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    int64_t numbers[5];
    if (!read_numbers(arguments, given, numbers, 5))
        return NULL;
    Search wanted = {.is_first = false, .least = numbers[3], .end = numbers[4]};
    return run_search(module, arguments[0], numbers, &wanted);
}

/* ---- the module ---- */

static int fill_module(PyObject *module)
{
    State *state = PyModule_GetState(module);
    PyObject *errors = PyImport_ImportModule("hutong.foundation.errors");
    if (!errors)
        return -1;
    state->protocol_error = PyObject_GetAttrString(errors, "ProtocolError");
    Py_DECREF(errors);
    if (!state->protocol_error)
        return -1;
    state->contents_type = PyStructSequence_NewType(&contents_description);
    if (!state->contents_type)
        return -1;
    return PyModule_AddIntConstant(module, "CONTRACT", CONTRACT);
}

static int visit_module(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->protocol_error);
    Py_VISIT((PyObject *)state->contents_type);
    return 0;
}

static int clear_module(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->protocol_error);
    Py_CLEAR(state->contents_type);
    return 0;
}

static PyMethodDef methods[] = {
    {"examine_records", (PyCFunction)(void (*)(void))examine_records, METH_FASTCALL, NULL},
    {"greatest_timestamp", (PyCFunction)(void (*)(void))greatest_timestamp, METH_FASTCALL, NULL},
    {"first_from", (PyCFunction)(void (*)(void))first_from, METH_FASTCALL, NULL},
    {"greatest_in", (PyCFunction)(void (*)(void))greatest_in, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)fill_module}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_record_walk",
    .m_size = sizeof(State),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = visit_module,
    .m_clear = clear_module,
};

PyMODINIT_FUNC PyInit__record_walk(void)
{
    return PyModuleDef_Init(&definition);
}
