/* One record as a stored message of RocketMQ's clients: read and measured, then written. Included by `_stored_run.c` alone.

   Reading has a position that only grows. No byte is read before its position is compared with the end, and no sum is
   formed that could overflow. What is out of the ordinary, or broken, is refused: Python has the rules for it. */

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define RECORD_BYTES_MIN 7
#define HEADERS_MAX 64
#define PROPERTIES_BYTES_MAX 32767
#define TOPIC_BYTES_MAX 127
#define VARLONG_SHIFT_MAX 63
#define MAGIC 0xDAA320A7u
#define CRC_MASK 0x7FFFFFFFu /* as `UtilAll.crc32`: the sign is cut off */
#define BORN_HOST_V6 0x10u
#define STORE_HOST_V6 0x20u
#define HOST_BYTES 8 /* of the host of storage: address and port */
#define FIXED_BYTES 91 /* of a message with an IPv4 address of birth, around body, topic and properties */
#define FIXED_BYTES_V6 103
#define ORIGIN_BYTES 25 /* version, flag, sysFlag, born, times consumed, port; the address follows */
#define ORIGIN_VERSION 1
#define SEPARATORS 2 /* bytes of a property around its name and its value */

static const char ORIGIN[] = "rocketmq";
static const char KEYS[] = "KEYS";
static const char TOMBSTONE[] = "TOMBSTONE";
static const char TRUE_TEXT[] = "true";
#define LENGTH_OF(text) ((int64_t)sizeof(text) - 1)

/* Of a null field the bytes are NULL, and the size is 0. */
typedef struct {
    const uint8_t *bytes;
    int64_t size;
} Field;

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Cursor;

typedef struct {
    int64_t offset;
    int64_t stored_ms;
    Field key; /* null where KEYS is a header, or there is no key */
    Field body;
    Field origin;
    Cursor headers;
    int64_t header_count;
    int64_t properties_bytes;
    int64_t bytes; /* of the stored message */
    bool is_marked; /* the property TOMBSTONE is added */
} Message;

typedef struct {
    int64_t base_offset;
    int64_t base_timestamp_ms;
    int64_t append_ms;
    bool is_append_time;
    int64_t queue_id;
    int64_t physical_base;
    int64_t from_offset;
    Field topic;
    const uint8_t *host;
} Facts;

/* ---- reading ---- */

/* The numbers of records, zig-zag coded. False for one that ends behind the end, or fits no 64 bits. */
static inline bool read_number(Cursor *cursor, int64_t *out)
{
    uint64_t number = 0;
    for (int shift = 0; shift <= VARLONG_SHIFT_MAX; shift += 7) {
        if (cursor->at >= cursor->end)
            return false;
        uint8_t byte = *cursor->at++;
        if (byte < 128) {
            if (shift == VARLONG_SHIFT_MAX && byte > 1)
                return false;
            number |= (uint64_t)byte << shift;
            /* To two's complement without shifting a negative number, which C leaves undefined. */
            *out = number & 1 ? -(int64_t)(number >> 1) - 1 : (int64_t)(number >> 1);
            return true;
        }
        number |= (uint64_t)(byte & 127) << shift;
    }
    return false;
}

/* Any negative length is that of a null field, as for `read_bytes`. */
static inline bool read_field(Cursor *cursor, Field *field)
{
    int64_t size;
    if (!read_number(cursor, &size) || size > cursor->end - cursor->at)
        return false;
    *field = size < 0 ? (Field){NULL, 0} : (Field){cursor->at, size};
    cursor->at += field->size;
    return true;
}

static inline bool is_text(Field field, const char *text, int64_t size)
{
    return field.size == size && memcmp(field.bytes, text, (size_t)size) == 0;
}

static bool add(int64_t left, int64_t right, int64_t *sum)
{
    if (right > 0 ? left > INT64_MAX - right : left < INT64_MIN - right)
        return false;
    *sum = left + right;
    return true;
}

/* True for UTF-8 without the bytes that separate properties. */
static bool is_property_text(Field field)
{
    uint8_t all = 0, separators = 0;
    /* Then the properties do not fit: no need to look at a megabyte. */
    if (field.size > PROPERTIES_BYTES_MAX)
        return false;
    for (int64_t index = 0; index < field.size; index++) {
        uint8_t byte = field.bytes[index];
        all |= byte;
        separators |= (uint8_t)(byte == 1) | (uint8_t)(byte == 2);
    }
    if (separators)
        return false;
    if (all < 128)
        return true;
    /* Python's own decoder says what is UTF-8. Without memory the record is Python's, which will say so. */
    PyObject *text = PyUnicode_DecodeUTF8((const char *)field.bytes, (Py_ssize_t)field.size, NULL);
    if (!text) {
        PyErr_Clear();
        return false;
    }
    Py_DECREF(text);
    return true;
}

/* The names and the packed size of the headers of a record, up to its end. */
static bool read_headers(Cursor *cursor, Message *message, bool *has_keys, bool *has_tombstone)
{
    Field names[HEADERS_MAX];
    int64_t count = 0;
    for (int64_t index = 0; index < message->header_count; index++) {
        Field name, value;
        if (!read_field(cursor, &name) || !read_field(cursor, &value) || name.size == 0)
            return false;
        if (is_text(name, ORIGIN, LENGTH_OF(ORIGIN))) {
            if (message->origin.bytes || !value.bytes)
                return false;
            message->origin = value;
            continue;
        }
        for (int64_t other = 0; other < count; other++) {
            if (names[other].size == name.size && memcmp(names[other].bytes, name.bytes, (size_t)name.size) == 0)
                return false;
        }
        names[count++] = name;
        if (!is_property_text(name) || !is_property_text(value))
            return false;
        *has_keys = *has_keys || is_text(name, KEYS, LENGTH_OF(KEYS));
        *has_tombstone = *has_tombstone || is_text(name, TOMBSTONE, LENGTH_OF(TOMBSTONE));
        message->properties_bytes += name.size + value.size + SEPARATORS;
    }
    return cursor->at == cursor->end;
}

static bool measure(Message *message, const Facts *facts)
{
    bool is_v6 = message->origin.size == ORIGIN_BYTES + 16;
    if (message->origin.bytes
        && ((message->origin.size != ORIGIN_BYTES + 4 && !is_v6) || message->origin.bytes[0] != ORIGIN_VERSION))
        return false;
    if (message->properties_bytes > PROPERTIES_BYTES_MAX)
        return false;
    message->bytes = (is_v6 ? FIXED_BYTES_V6 : FIXED_BYTES) + message->body.size + facts->topic.size
                     + message->properties_bytes;
    return message->bytes <= INT32_MAX;
}

/* Moves the cursor behind the record. False for one that is Python's to read; then the cursor is anywhere. */
static bool read_record(Cursor *cursor, const Facts *facts, Message *message, bool *is_skipped)
{
    int64_t length, delta_ms, delta;
    if (!read_number(cursor, &length) || length < 1 || length > cursor->end - cursor->at)
        return false;
    Cursor fields = {cursor->at + 1, cursor->at + length}; /* the byte of attributes is unused */
    cursor->at += length;
    if (!read_number(&fields, &delta_ms) || !read_number(&fields, &delta))
        return false;
    *message = (Message){0};
    if (!add(facts->base_offset, delta, &message->offset))
        return false;
    *is_skipped = facts->from_offset > facts->base_offset && message->offset < facts->from_offset;
    if (*is_skipped)
        return true;
    if (facts->is_append_time)
        message->stored_ms = facts->append_ms;
    else if (!add(facts->base_timestamp_ms, delta_ms, &message->stored_ms))
        return false;
    if (!read_field(&fields, &message->key) || !read_field(&fields, &message->body)
        || !read_number(&fields, &message->header_count))
        return false;
    if (message->header_count < 0 || message->header_count > HEADERS_MAX)
        return false;
    bool has_keys = false, has_tombstone = false;
    message->headers = fields;
    if (!read_headers(&fields, message, &has_keys, &has_tombstone))
        return false;
    if (has_keys)
        message->key = (Field){NULL, 0};
    if (message->key.size) {
        if (!is_property_text(message->key))
            return false;
        message->properties_bytes += LENGTH_OF(KEYS) + message->key.size + SEPARATORS;
    }
    message->is_marked = !message->body.bytes && !has_tombstone;
    if (message->is_marked)
        message->properties_bytes += LENGTH_OF(TOMBSTONE) + LENGTH_OF(TRUE_TEXT) + SEPARATORS;
    return measure(message, facts);
}

/* ---- writing ---- */

/* CRC-32 of zlib, eight bytes at a time. */
static uint32_t crc_tables[8][256];

static void fill_crc_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++)
            value = value & 1 ? value >> 1 ^ 0xEDB88320u : value >> 1;
        crc_tables[0][byte] = value;
    }
    for (int table = 1; table < 8; table++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = crc_tables[table - 1][byte];
            crc_tables[table][byte] = before >> 8 ^ crc_tables[0][before & 255];
        }
    }
}

static uint32_t crc_of(Field field)
{
    uint32_t crc = 0xFFFFFFFFu;
    const uint8_t *at = field.bytes;
    int64_t left = field.size;
    for (; left >= 8; left -= 8, at += 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        crc = crc_tables[7][low & 255] ^ crc_tables[6][low >> 8 & 255] ^ crc_tables[5][low >> 16 & 255]
              ^ crc_tables[4][low >> 24] ^ crc_tables[3][at[4]] ^ crc_tables[2][at[5]] ^ crc_tables[1][at[6]]
              ^ crc_tables[0][at[7]];
    }
    for (; left > 0; left--)
        crc = crc >> 8 ^ crc_tables[0][(crc ^ *at++) & 255];
    return ~crc;
}

static inline uint8_t *put_32(uint8_t *out, uint32_t number)
{
    for (int index = 0; index < 4; index++)
        out[index] = (uint8_t)(number >> (24 - 8 * index));
    return out + 4;
}

static inline uint8_t *put_64(uint8_t *out, uint64_t number)
{
    return put_32(put_32(out, (uint32_t)(number >> 32)), (uint32_t)number);
}

static inline uint8_t *put_bytes(uint8_t *out, const void *bytes, int64_t size)
{
    if (size)
        memcpy(out, bytes, (size_t)size);
    return out + size;
}

static uint8_t *put_property(uint8_t *out, Field name, Field value)
{
    out = put_bytes(out, name.bytes, name.size);
    *out++ = 1;
    out = put_bytes(out, value.bytes, value.size);
    *out++ = 2;
    return out;
}

static uint8_t *put_properties(uint8_t *out, const Message *message)
{
    Cursor cursor = message->headers;
    for (int64_t index = 0; index < message->header_count; index++) {
        Field name = {NULL, 0}, value = {NULL, 0};
        /* They were read before, by the same function. */
        if (!read_field(&cursor, &name) || !read_field(&cursor, &value))
            break;
        if (!is_text(name, ORIGIN, LENGTH_OF(ORIGIN)))
            out = put_property(out, name, value);
    }
    if (message->key.size)
        out = put_property(out, (Field){(const uint8_t *)KEYS, LENGTH_OF(KEYS)}, message->key);
    if (message->is_marked)
        out = put_property(out, (Field){(const uint8_t *)TOMBSTONE, LENGTH_OF(TOMBSTONE)},
                           (Field){(const uint8_t *)TRUE_TEXT, LENGTH_OF(TRUE_TEXT)});
    return out;
}

static uint32_t get_32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | (uint32_t)bytes[3];
}

/* Returns where the properties begin. */
static uint8_t *put_message(uint8_t *out, const Message *message, const Facts *facts)
{
    static const uint8_t nowhere[ORIGIN_BYTES + 4];
    const uint8_t *origin = message->origin.bytes ? message->origin.bytes : nowhere;
    int64_t address_bytes = message->origin.bytes ? message->origin.size - ORIGIN_BYTES : 4;
    uint32_t sys_flag = get_32(origin + 5) & ~(BORN_HOST_V6 | STORE_HOST_V6);
    out = put_32(out, (uint32_t)message->bytes);
    out = put_32(out, MAGIC);
    out = put_32(out, crc_of(message->body) & CRC_MASK);
    out = put_32(out, (uint32_t)facts->queue_id);
    out = put_bytes(out, origin + 1, 4); /* the flag */
    out = put_64(out, (uint64_t)message->offset);
    out = put_64(out, (uint64_t)facts->physical_base | ((uint64_t)message->offset & (((uint64_t)1 << 40) - 1)));
    out = put_32(out, address_bytes == 4 ? sys_flag : sys_flag | BORN_HOST_V6);
    /* A record of another client was born when it was stored. */
    out = message->origin.bytes ? put_bytes(out, origin + 9, 8) : put_64(out, (uint64_t)message->stored_ms);
    out = put_bytes(out, origin + ORIGIN_BYTES, address_bytes);
    out = put_bytes(out, origin + 21, 4); /* the port */
    out = put_64(out, (uint64_t)message->stored_ms);
    out = put_bytes(out, facts->host, HOST_BYTES);
    out = put_bytes(out, origin + 17, 4); /* times consumed */
    out = put_64(out, 0); /* no transaction has committed it */
    out = put_32(out, (uint32_t)message->body.size);
    out = put_bytes(out, message->body.bytes, message->body.size);
    *out++ = (uint8_t)facts->topic.size;
    out = put_bytes(out, facts->topic.bytes, facts->topic.size);
    *out++ = (uint8_t)(message->properties_bytes >> 8);
    *out++ = (uint8_t)message->properties_bytes;
    put_properties(out, message);
    return out;
}
