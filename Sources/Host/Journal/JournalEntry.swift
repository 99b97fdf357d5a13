/// A log record in systemd's "Native Journal Protocol": a sequence of fields, each in one of two forms.
///
/// | a value without line breaks | another value |
/// | --- | --- |
/// | `NAME=value`, line feed | `NAME`, line feed, its length as 8 bytes (little endian), the value, line feed |
struct JournalEntry {
  private(set) var bytes: [UInt8] = []

  init(_ record: LogRecord, identifier: String) {
    append("MESSAGE", record.text)
    append("PRIORITY", String(record.level.rawValue))
    append("SYSLOG_IDENTIFIER", identifier)
    append("CODE_FILE", record.file)
    append("CODE_FUNC", record.function)
    append("CODE_LINE", String(record.line))
    if let id = record.id { append("MESSAGE_ID", id.hex) }
    for field in record.fields { append(field.name, field.value) }
  }

  private mutating func append(_ name: String, _ value: String) {
    bytes += name.utf8
    let value = Array(value.utf8)
    if value.contains(0x0A) {
      bytes.append(0x0A)
      withUnsafeBytes(of: UInt64(value.count).littleEndian) { bytes += $0 }
    } else {
      bytes.append(UInt8(ascii: "="))
    }
    bytes += value
    bytes.append(0x0A)
  }
}
