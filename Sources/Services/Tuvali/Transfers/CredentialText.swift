import DBus

/// The text of a received credential, in UTF-8. It is in a sealed memory file, which is made once, which every program that
/// asks for a file gets, and which is no part of this process's memory. Where the kernel gives no file (the process has too
/// many open) the text is in ordinary memory.
public struct CredentialText: Sendable {
  private enum Place {
    case file(FileDescriptor)
    case memory([UInt8])
  }

  /// How many bytes the text has.
  public let count: Int
  private let place: Place

  init(_ bytes: [UInt8]) {
    count = bytes.count
    let file = try? FileDescriptor.sealed(bytes, name: Self.fileName)
    place = file.map { .file($0) } ?? .memory(bytes)
  }

  private static let fileName = "credential"

  /// A copy of the text.
  public func bytes() throws(DBusError) -> [UInt8] {
    switch place {
    case .file(let file): try file.contents()
    case .memory(let bytes): bytes
    }
  }

  /// The text as a sealed memory file, to be read from its beginning by one program.
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
