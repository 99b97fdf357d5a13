import Common
import Glibc
import MemoryFiles

/// A non-blocking socket to the journal: while the journal does not read, lines are dropped and counted. When it reads
/// again, an additional line reports the number of dropped lines.
///
/// (`sd_journal_sendv` blocks while the journal does not read.)
public final class JournalSocket: Sendable {
  /// The journal of this machine.
  public static let shared = JournalSocket(path: "/run/systemd/journal/socket")

  private struct State {
    var descriptor: Int32 = -1
    /// Number of dropped lines that are not reported yet.
    var lost: UInt64 = 0
    /// The SYSLOG_IDENTIFIER of the last line, which the report of dropped lines uses.
    var identifier = ""
  }

  private let path: String
  private let state = Locked(State())

  /// - Parameter path: the path of the journal's socket; at most 107 bytes.
  public init(path: String) {
    self.path = path
  }

  deinit {
    state.withLock { if $0.descriptor >= 0 { close($0.descriptor) } }
  }

  /// Number of dropped lines that are not reported yet.
  public var lost: UInt64 { state.withLock { $0.lost } }

  /// Sends a line, or counts it as dropped.
  func send(_ record: LogRecord, identifier: String) {
    state.withLock { state in
      state.identifier = identifier
      let isFree = report(&state)
      if !isFree || !send(JournalEntry(record, identifier: identifier).bytes, &state) { state.lost += 1 }
    }
  }

  /// Reports the number of dropped lines, if there are any and the journal reads again.
  public func reportLost() {
    state.withLock { _ = report(&$0) }
  }

  /// Reports dropped lines.
  ///
  /// - Returns: whether all dropped lines are reported.
  private func report(_ state: inout State) -> Bool {
    guard state.lost > 0 else { return true }
    let record = LogRecord(
      level: .warning, text: "Log entries dropped because the journal did not accept them: \(state.lost)",
      id: .linesLost,
      fields: [], file: #fileID, function: #function, line: #line)
    guard send(JournalEntry(record, identifier: state.identifier).bytes, &state) else { return false }
    state.lost = 0
    return true
  }

  /// Sends a record.
  ///
  /// - Returns: false if the journal does not accept it now.
  private func send(_ bytes: [UInt8], _ state: inout State) -> Bool {
    if state.descriptor < 0 {
      state.descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    }
    guard state.descriptor >= 0, let address = UnixAddress(path) else { return false }
    if address.send(bytes, passing: nil, over: state.descriptor) { return true }
    guard errno == EMSGSIZE || errno == ENOBUFS, let file = try? MemoryFile.sealed(bytes, name: "journal") else {
      return false
    }
    defer { close(file) }
    // A line that is too large for a datagram is passed in a sealed memory file.
    return address.send([], passing: file, over: state.descriptor)
  }
}

/// The address of a Unix socket.
private struct UnixAddress {
  private var address = sockaddr_un()

  /// Makes the address of a path; nil if the path is too long.
  init?(_ path: String) {
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
  }

  /// Sends one datagram, and optionally a descriptor, without blocking.
  ///
  /// - Returns: false with the reason in `errno`.
  func send(_ bytes: [UInt8], passing descriptor: Int32?, over socket: Int32) -> Bool {
    var (address, bytes, control) = (address, bytes, descriptor.map(Self.rights) ?? [])
    return withUnsafeMutablePointer(to: &address) { address in
      bytes.withUnsafeMutableBytes { bytes in
        control.withUnsafeMutableBytes { control in
          var vector = iovec(iov_base: bytes.baseAddress, iov_len: bytes.count)
          return withUnsafeMutablePointer(to: &vector) { vector in
            var header = msghdr()
            header.msg_name = UnsafeMutableRawPointer(address)
            header.msg_namelen = socklen_t(MemoryLayout<sockaddr_un>.size)
            header.msg_iov = vector
            header.msg_iovlen = bytes.isEmpty ? 0 : 1
            header.msg_control = control.isEmpty ? nil : control.baseAddress
            header.msg_controllen = control.count
            while true {
              if sendmsg(socket, &header, Int32(MSG_DONTWAIT | MSG_NOSIGNAL)) >= 0 { return true }
              if errno != EINTR { return false }
            }
          }
        }
      }
    }
  }

  /// A control message with one descriptor (cmsg(3)): 8 bytes of length, 4 each of level (SOL_SOCKET), type
  /// (SCM_RIGHTS) and descriptor, padded to a whole word.
  private static func rights(_ descriptor: Int32) -> [UInt8] {
    var bytes: [UInt8] = []
    withUnsafeBytes(of: UInt64(20)) { bytes += $0 }
    for number in [SOL_SOCKET, 1, descriptor, 0] { withUnsafeBytes(of: number) { bytes += $0 } }
    return bytes
  }
}

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
