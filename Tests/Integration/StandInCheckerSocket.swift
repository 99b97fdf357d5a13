import Common
import Foundation
import Glibc
import TestSupport
import Testing

/// A program that listens at the path of the service's checker, on a thread of its own. It answers each connection
/// with one verdict, whose claims are a part of the credential.
final class StandInCheckerSocket: Sendable {
  private let descriptor: Int32
  /// The claims of all verdicts that were sent.
  private let sent = Locked<[[UInt8]]>([])

  /// - Parameter word: the word of every verdict; nil for a checker that never replies.
  init(at path: String, word: String? = "valid") throws {
    let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    descriptor = listener
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let isBound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
      }
    }
    try #require(isBound && listen(listener, 16) == 0)
    let sent = sent
    Thread.detachNewThread {
      while true {
        let connection = accept(listener, nil, nil)
        guard connection >= 0 else { return }
        guard let word else { continue }
        Self.answer(connection, word, sent)
        Glibc.close(connection)
      }
    }
  }

  /// The claims of all verdicts so far.
  var claims: [[UInt8]] { sent.withLock { $0 } }

  func close() {
    shutdown(descriptor, Int32(SHUT_RDWR))
    Glibc.close(descriptor)
  }

  private static func answer(_ connection: Int32, _ word: String, _ sent: Locked<[[UInt8]]>) {
    var credential: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      let count = read(connection, &buffer, buffer.count)
      guard count > 0 else { break }
      credential += buffer[..<count]
    }
    // Letters and digits need no escape in JSON, and the claim differs from all words of the service.
    let claim = credential.filter { isLetterOrDigit($0) }.suffix(300).map { $0 ^ 1 }.filter { isLetterOrDigit($0) }
    sent.withLock { $0.append(claim) }
    let text = String(decoding: claim, as: UTF8.self)
    let line =
      #"{"verdict": "\#(word)", "reasons": [], "issuer": "Residents Office", "type": "ResidentCredential", "#
      + #""claims": {"portrait": "\#(text)"}}"# + "\n"
    let bytes = Array(line.utf8)
    var offset = 0
    while offset < bytes.count {
      let count = bytes.dropFirst(offset).withUnsafeBytes {
        Glibc.send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { return }
      offset += count
    }
  }

  private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
  }
}
