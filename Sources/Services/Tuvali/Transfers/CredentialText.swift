import DBus

/// Text of a received credential, in UTF-8. It is in a sealed memory file outside of this process's memory, made once
/// and shared with all programs that request a file. If the kernel gives no file, because too many are open, it is in
/// ordinary memory.
public struct CredentialText: Sendable {
  private enum Place {
    case file(FileDescriptor)
    case memory([UInt8])
  }

  /// Length of the text, in bytes.
  public let count: Int
  private let place: Place

  init(_ bytes: [UInt8]) {
    count = bytes.count
    let file = try? FileDescriptor.sealed(bytes, name: Self.fileName)
    place = file.map { .file($0) } ?? .memory(bytes)
  }

  private static let fileName = "credential"

  /// Returns a copy of the text.
  public func bytes() throws(DBusError) -> [UInt8] {
    switch place {
    case .file(let file): try file.contents()
    case .memory(let bytes): bytes
    }
  }

  /// Returns the text as a sealed memory file with its own position, for one program.
  func file() throws(DBusError) -> FileDescriptor {
    switch place {
    case .file(let file): try file.reopened()
    case .memory(let bytes): try FileDescriptor.sealed(bytes, name: Self.fileName)
    }
  }
}

extension CredentialText: CustomStringConvertible, CustomReflectable {
  public var description: String { "<credential of \(count) bytes>" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
