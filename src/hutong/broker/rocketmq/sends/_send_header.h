/* The header of one request to send, in JSON or in RocketMQ's binary form. Included by `_plain_send.c` alone.

   Reading has a position that only grows. No byte is read before its position is compared with the end. What is out of
   the ordinary, or broken, is refused: Python has the rules for it. What is taken here, Python would take alike. */

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define HEADER_BYTES_MAX 16384 /* of one that is read here; its texts are copied to an arena of this size */
#define EXT_FIELDS_MAX 64
#define FIXED_BYTES 21 /* of a binary header with neither remark nor ext fields */
#define NUMBER_DIGITS_MAX 10
#define TEXT_DIGITS_MAX 18 /* of a number in an ext field */
#define JSON 0
#define BINARY 1

/* Of an absent field the bytes are NULL. */
typedef struct {
    const uint8_t *bytes;
    int64_t size;
} Field;

enum { TOPIC, QUEUE, SYS_FLAG, BORN, FLAG, PROPERTIES, TIMES, BATCH, FIELDS };

static const char *const NAMES[FIELDS] = {"topic",      "queueId",        "sysFlag", "bornTimestamp", "flag",
                                          "properties", "reconsumeTimes", "batch"};
static const char LETTERS[FIELDS] = {'b', 'e', 'f', 'g', 'h', 'i', 'j', 'm'};

typedef struct {
    int64_t code;
    int64_t opaque;
    int64_t flag;
    Field by_letter[FIELDS]; /* of SEND_MESSAGE_V2 */
    Field by_name[FIELDS];   /* of SEND_MESSAGE */
} Header;

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    uint8_t *arena; /* where the next text with escapes goes: no text is longer than what it was written as */
} Reader;

static bool is_same(Field field, const char *text)
{
    size_t size = strlen(text);
    return field.size == (int64_t)size && memcmp(field.bytes, text, size) == 0;
}

static bool is_ascii(Field field)
{
    uint8_t all = 0;
    for (int64_t index = 0; index < field.size; index++)
        all |= field.bytes[index];
    return all < 128;
}

/* Python's own decoder says what is UTF-8. Without memory the request is Python's, which will say so. */
static bool is_utf_8(Field field)
{
    if (is_ascii(field))
        return true;
    PyObject *text = PyUnicode_DecodeUTF8((const char *)field.bytes, (Py_ssize_t)field.size, NULL);
    if (!text) {
        PyErr_Clear();
        return false;
    }
    Py_DECREF(text);
    return true;
}

/* False for a field that comes twice. Those that no plain message depends on are passed over. */
static bool put_field(Header *header, Field name, Field value)
{
    Field *place = NULL;
    for (int index = 0; index < FIELDS && !place; index++) {
        if (name.size == 1 ? name.bytes[0] == (uint8_t)LETTERS[index] : is_same(name, NAMES[index]))
            place = name.size == 1 ? &header->by_letter[index] : &header->by_name[index];
    }
    if (!place)
        return true;
    if (place->bytes)
        return false;
    *place = value;
    return true;
}

/* ---- the binary form ---- */

static uint32_t get_16(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 8 | bytes[1];
}

static uint32_t get_32(const uint8_t *bytes)
{
    return get_16(bytes) << 16 | get_16(bytes + 2);
}

static bool read_ext_fields(Reader *reader, Header *header)
{
    for (int count = 0; reader->at < reader->end; count++) {
        if (count >= EXT_FIELDS_MAX || reader->end - reader->at < 2)
            return false;
        Field name = {reader->at + 2, (int16_t)get_16(reader->at)};
        if (name.size <= 0 || name.size + 6 > reader->end - reader->at)
            return false;
        const uint8_t *size_at = name.bytes + name.size;
        Field value = {size_at + 4, (int32_t)get_32(size_at)};
        if (value.size < 0 || value.size > reader->end - value.bytes)
            return false;
        if (!is_utf_8(name) || !is_utf_8(value) || !put_field(header, name, value))
            return false;
        reader->at = value.bytes + value.size;
    }
    return true;
}

static bool read_binary(Reader *reader, Header *header)
{
    const uint8_t *at = reader->at;
    if (reader->end - at < FIXED_BYTES)
        return false;
    header->code = (int16_t)get_16(at);
    header->opaque = (int32_t)get_32(at + 5);
    header->flag = (int32_t)get_32(at + 9);
    /* A remark, which moves what follows it: no client sends one. */
    if (get_32(at + 13) || get_32(at + 17) != (uint64_t)(reader->end - at - FIXED_BYTES))
        return false;
    reader->at = at + FIXED_BYTES;
    return read_ext_fields(reader, header);
}

/* ---- JSON ---- */

static void skip_space(Reader *reader)
{
    while (reader->at < reader->end
           && (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\n' || *reader->at == '\r'))
        reader->at++;
}

static bool take(Reader *reader, uint8_t wanted)
{
    skip_space(reader);
    if (reader->at >= reader->end || *reader->at != wanted)
        return false;
    reader->at++;
    return true;
}

static bool take_word(Reader *reader, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, word, size) != 0)
        return false;
    reader->at += size;
    return true;
}

/* Behind the u of an escape. Half of a pair of surrogates is Python's to read. */
static bool read_unit(Reader *reader)
{
    uint32_t unit = 0;
    if (reader->end - reader->at < 4)
        return false;
    for (int digit = 0; digit < 4; digit++) {
        uint8_t byte = *reader->at++;
        uint8_t letter = byte | 0x20;
        if (byte >= '0' && byte <= '9')
            unit = unit << 4 | (uint32_t)(byte - '0');
        else if (letter >= 'a' && letter <= 'f')
            unit = unit << 4 | (uint32_t)(letter - 'a' + 10);
        else
            return false;
    }
    if (unit >= 0xD800 && unit < 0xE000)
        return false;
    if (unit < 0x80) {
        *reader->arena++ = (uint8_t)unit;
    } else if (unit < 0x800) {
        *reader->arena++ = (uint8_t)(0xC0 | unit >> 6);
        *reader->arena++ = (uint8_t)(0x80 | (unit & 0x3F));
    } else {
        *reader->arena++ = (uint8_t)(0xE0 | unit >> 12);
        *reader->arena++ = (uint8_t)(0x80 | (unit >> 6 & 0x3F));
        *reader->arena++ = (uint8_t)(0x80 | (unit & 0x3F));
    }
    return true;
}

/* Behind a backslash. */
static bool read_escape(Reader *reader)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (reader->at >= reader->end)
        return false;
    uint8_t byte = *reader->at++;
    if (byte == 'u')
        return read_unit(reader);
    const char *found = byte ? strchr(escapes, byte) : NULL;
    if (!found)
        return false;
    *reader->arena++ = (uint8_t)meant[found - escapes];
    return true;
}

static inline const uint8_t *plain_end(const Reader *reader)
{
    const uint8_t *at = reader->at;
    while (at < reader->end && *at != '"' && *at != '\\' && *at >= 0x20)
        at++;
    return at;
}

static bool read_text(Reader *reader, Field *text)
{
    if (!take(reader, '"'))
        return false;
    const uint8_t *begin = reader->at, *stop = plain_end(reader);
    /* Most texts have no escapes, and are used where they are. */
    if (stop < reader->end && *stop == '"') {
        *text = (Field){begin, stop - begin};
        reader->at = stop + 1;
        return true;
    }
    const uint8_t *copy = reader->arena;
    while (stop < reader->end && *stop >= 0x20) {
        memcpy(reader->arena, reader->at, (size_t)(stop - reader->at));
        reader->arena += stop - reader->at;
        reader->at = stop + 1;
        if (*stop == '"') {
            *text = (Field){copy, reader->arena - copy};
            return true;
        }
        if (!read_escape(reader))
            return false;
        stop = plain_end(reader);
    }
    return false;
}

/* The digits of a whole number, as JSON has them. Others, and what follows one of another kind, fail later. */
static bool read_digits(Reader *reader, Field *digits)
{
    digits->bytes = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
        reader->at++;
    digits->size = reader->at - digits->bytes;
    return digits->size > 0 && digits->size <= TEXT_DIGITS_MAX && (digits->size == 1 || digits->bytes[0] != '0');
}

static int64_t number_of(Field digits)
{
    int64_t number = 0;
    for (int64_t index = 0; index < digits.size; index++)
        number = 10 * number + (digits.bytes[index] - '0');
    return number;
}

static bool read_number(Reader *reader, int64_t *number)
{
    Field digits;
    skip_space(reader);
    bool is_negative = reader->at < reader->end && *reader->at == '-';
    reader->at += is_negative;
    if (!read_digits(reader, &digits) || digits.size > NUMBER_DIGITS_MAX)
        return false;
    *number = is_negative ? -number_of(digits) : number_of(digits);
    return true;
}

/* A text, or a number or a boolean, which ali-ons writes. */
static bool read_value(Reader *reader, Field *value)
{
    skip_space(reader);
    if (reader->at >= reader->end)
        return false;
    const uint8_t *begin = reader->at;
    switch (*begin) {
    case '"':
        return read_text(reader, value);
    case 't':
    case 'f':
        *value = (Field){begin, *begin == 't' ? 4 : 5};
        return take_word(reader, *begin == 't' ? "true" : "false");
    default:
        return read_digits(reader, value);
    }
}

/* Reads the members of an object, each by `read_member`, which is given its name. */
static bool read_object(Reader *reader, Header *header, bool (*read_member)(Reader *, Header *, Field, uint32_t *))
{
    uint32_t seen = 0;
    if (!take(reader, '{'))
        return false;
    if (take(reader, '}'))
        return true;
    for (int count = 0; count < EXT_FIELDS_MAX; count++) {
        Field name;
        if (!read_text(reader, &name) || !take(reader, ':') || !read_member(reader, header, name, &seen))
            return false;
        if (take(reader, '}'))
            return true;
        if (!take(reader, ','))
            return false;
    }
    return false;
}

static bool read_ext_member(Reader *reader, Header *header, Field name, uint32_t *seen)
{
    Field value;
    (void)seen;
    return read_value(reader, &value) && put_field(header, name, value);
}

enum { CODE = 1, OPAQUE = 2, FLAGS = 4, VERSION = 8, EXT = 16, LANGUAGE = 32, REMARK = 64 };

/* False for a member that comes twice, of which Python takes the last. */
static bool is_first(uint32_t *seen, uint32_t member)
{
    bool is_new = !(*seen & member);
    *seen |= member;
    return is_new;
}

static bool read_bounded(Reader *reader, int64_t *number, int64_t end)
{
    return read_number(reader, number) && *number >= -end && *number < end;
}

static bool read_header_member(Reader *reader, Header *header, Field name, uint32_t *seen)
{
    int64_t ignored;
    Field text;
    if (is_same(name, "code"))
        return is_first(seen, CODE) && read_bounded(reader, &header->code, INT64_C(1) << 31);
    if (is_same(name, "opaque"))
        return is_first(seen, OPAQUE) && read_bounded(reader, &header->opaque, INT64_C(1) << 31);
    if (is_same(name, "flag"))
        return is_first(seen, FLAGS) && read_bounded(reader, &header->flag, INT64_C(1) << 31);
    if (is_same(name, "version"))
        return is_first(seen, VERSION) && read_bounded(reader, &ignored, INT64_C(1) << 15);
    if (is_same(name, "extFields"))
        return is_first(seen, EXT) && read_object(reader, header, read_ext_member);
    if (is_same(name, "language")) {
        skip_space(reader);
        if (!is_first(seen, LANGUAGE) || reader->at >= reader->end)
            return false;
        return *reader->at == '"' ? read_text(reader, &text) : read_number(reader, &ignored);
    }
    if (is_same(name, "remark")) {
        skip_space(reader);
        return is_first(seen, REMARK) && (take_word(reader, "null") || read_text(reader, &text));
    }
    return read_value(reader, &text);
}

static bool read_json(Reader *reader, Header *header)
{
    if (!is_utf_8((Field){reader->at, reader->end - reader->at}))
        return false;
    header->code = -1;
    if (!read_object(reader, header, read_header_member))
        return false;
    skip_space(reader);
    return reader->at == reader->end;
}
