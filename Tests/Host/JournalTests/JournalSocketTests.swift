import Common
import Foundation
import Glibc
import Testing

@testable import Journal

@Suite("The socket to the journal")
struct JournalSocketTests {
  @Test("A log record reaches the journal with all fields, and multi-line fields have a length")
  func line() throws {
    let journal = try FakeJournal()
    let log = Log(destination: .journal(identifier: "test", JournalSocket(path: journal.path)), level: .info)
    log.notice("The radio \("hci0") is back", id: .radioReady, .adapter("hci0"))
    let text = try #require(journal.next())
    #expect(text.hasPrefix("MESSAGE=The radio hci0 is back\nPRIORITY=5\nSYSLOG_IDENTIFIER=test\n"))
    #expect(text.hasSuffix("MESSAGE_ID=\(MessageID.radioReady.hex)\nEARSHOT_ADAPTER=hci0\n"))

    let entry = JournalEntry(Self.record("a\nb"), identifier: "test")
    #expect(
      entry.bytes.starts(with: Array("MESSAGE\n".utf8) + [3, 0, 0, 0, 0, 0, 0, 0] + Array("a\nb\nPRIORITY".utf8)))
  }

  @Test("A journal that does not read blocks no caller, and lost records are counted and reported later")
  func deaf() throws {
    let journal = try FakeJournal()
    let socket = JournalSocket(path: journal.path)
    // The kernel queues some messages; a send that waits would block the test.
    var sent = 0
    while socket.lost == 0 {
      sent += 1
      socket.send(Self.record("line \(sent)"), identifier: "test")
    }
    for number in 1...9 { socket.send(Self.record("lost \(number)"), identifier: "test") }
    #expect(socket.lost == 10)
    socket.reportLost()
    #expect(socket.lost == 10, "it still does not read")

    for number in 1..<sent { #expect(journal.next()?.hasPrefix("MESSAGE=line \(number)\n") == true) }
    #expect(journal.next() == nil)
    socket.send(Self.record("again"), identifier: "test")
    let told = try #require(journal.next())
    #expect(told.hasPrefix("MESSAGE=Log entries dropped because the journal did not accept them: 10\nPRIORITY=4\n"))
    #expect(told.contains("MESSAGE_ID=\(MessageID.linesLost.hex)\n"))
    #expect(journal.next()?.hasPrefix("MESSAGE=again\n") == true)
    #expect(socket.lost == 0)
    socket.reportLost()
    #expect(journal.next() == nil, "it is told once")
  }

  @Test("Lost records are reported on request, and a restarted journal is used again")
  func restarted() throws {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("journal-\(UUID().uuidString)").path
    let socket = JournalSocket(path: path)
    socket.send(Self.record("before"), identifier: "test")
    #expect(socket.lost == 1)
    for _ in 0..<2 {
      let journal = try FakeJournal(path)
      socket.reportLost()
      #expect(
        journal.next()?.hasPrefix("MESSAGE=Log entries dropped because the journal did not accept them: 1\n") == true)
      #expect(socket.lost == 0)
      journal.close()
      socket.send(Self.record("between"), identifier: "test")
      #expect(socket.lost == 1)
    }
  }

  @Test("A log record too large for a datagram is sent as a memory file with all seals")
  func large() throws {
    let journal = try FakeJournal()
    let socket = JournalSocket(path: journal.path)
    let text = String(repeating: "x", count: 1 << 20)
    socket.send(Self.record(text), identifier: "test")
    #expect(socket.lost == 0)
    #expect(journal.next()?.hasPrefix("MESSAGE=\(text)\nPRIORITY=6\n") == true)
    #expect(journal.seals == 15)
  }

  private static func record(_ text: String) -> LogRecord {
    LogRecord(level: .info, text: text, id: nil, fields: [], file: "F.swift", function: "f()", line: 1)
  }
}

/// A journal socket from which the test reads explicitly.
private final class FakeJournal {
  let path: String
  private let descriptor: Int32
  /// The seals of the last memory file that was received.
  private(set) var seals: Int32 = 0
  private var isOpen = true

  init(_ path: String? = nil) throws {
    self.path =
      path ?? FileManager.default.temporaryDirectory.appendingPathComponent("journal-\(UUID().uuidString)").path
    descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(self.path.utf8)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    try #require(bound == 0)
  }

  deinit { close() }

  func close() {
    guard isOpen else { return }
    isOpen = false
    Glibc.close(descriptor)
    unlink(path)
  }

  /// The next entry, from a datagram or its memory file; nil where none waits.
  func next() -> String? {
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    var control = [UInt8](repeating: 0, count: 24)
    let (count, controlled) = buffer.withUnsafeMutableBytes { bytes in
      control.withUnsafeMutableBytes { control in
        var vector = iovec(iov_base: bytes.baseAddress, iov_len: bytes.count)
        return withUnsafeMutablePointer(to: &vector) { vector in
          var header = msghdr()
          header.msg_iov = vector
          header.msg_iovlen = 1
          header.msg_control = control.baseAddress
          header.msg_controllen = control.count
          let count = recvmsg(descriptor, &header, Int32(MSG_DONTWAIT))
          return (count, header.msg_controllen)
        }
      }
    }
    guard count >= 0 else { return nil }
    guard controlled > 0 else { return String(decoding: buffer.prefix(count), as: UTF8.self) }
    let file = control.withUnsafeBytes { $0.load(fromByteOffset: 16, as: Int32.self) }
    defer { Glibc.close(file) }
    seals = fcntl(file, 1034)
    var bytes: [UInt8] = []
    while case let count = pread(file, &buffer, buffer.count, off_t(bytes.count)), count > 0 {
      bytes += buffer[..<count]
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
