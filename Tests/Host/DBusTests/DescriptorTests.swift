import DBus
import Glibc
import Loop
import TestSupport
import Testing

/// Descriptors and memory files.
struct DescriptorTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A sealed memory file can be passed to the service and back, and is readable but not writable")
  @LoopActor
  func passing() async throws {
    let table = try await Table()
    defer { table.close() }
    var received: [UInt8] = []
    let object = table.export(
      Interface(
        Table.interface,
        methods: [
          Method(
            "Pass", in: [Argument("file", "h")], out: [Argument("file", "h"), Argument("files", "ah")],
            returning: { (call) throws(DBusError) in
              received = try call.arguments[0].asDescriptor?.readAll(limit: 100) ?? []
              let own = try FileDescriptor.sealed(Array("answer".utf8), name: "answer")
              return [.descriptor(own), .array(of: "h", [.descriptor(own), call.arguments[0]])]
            })
        ]))
    let file = try FileDescriptor.sealed(Array("question".utf8), name: "question")
    let answer = try await table.call("Pass", [.descriptor(file)])
    #expect(received == Array("question".utf8))
    let back = try #require(answer.first?.asDescriptor)
    #expect(try back.readAll(limit: 100) == Array("answer".utf8))
    #expect(answer.last?.asArray?.count == 2)
    #expect(fcntl(back.raw, 1034) == 15, "all four seals are set")
    #expect(write(back.raw, "x", 1) == -1 && ftruncate(back.raw, 0) == -1)
    object.cancel()
  }

  @Test("A closed descriptor, or too many descriptors in a message, are refused with a named error")
  @LoopActor
  func refusals() async throws {
    let table = try await Table()
    defer { table.close() }
    let file = try FileDescriptor.sealed([], name: "")
    let many = DBusValue.array(of: "h", (0..<17).map { _ in .descriptor(file) })
    #expect(await table.error("M", [many])?.is(.limitExceeded) == true)
    file.close()
    #expect(await table.error("M", [.descriptor(file)])?.is(.invalidArgs) == true)
    #expect(try await table.client.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping").isEmpty)
  }

  @Test("A memory file that is opened again is read from its beginning and cannot be written")
  func reopening() throws {
    let file = try FileDescriptor.sealed(Array("a text".utf8), name: "file")
    #expect(try file.readAll(limit: 100) == Array("a text".utf8))
    for _ in 0..<2 {
      let again = try file.reopened()
      #expect(again.raw != file.raw && fcntl(again.raw, F_GETFD) == FD_CLOEXEC)
      #expect(try again.readAll(limit: 100) == Array("a text".utf8))
      #expect(write(again.raw, "x", 1) == -1)
    }
    #expect(try file.contents() == Array("a text".utf8))
    #expect(try file.readAll(limit: 100).isEmpty)
    file.close()
    #expect(throws: DBusError.self) { try file.reopened() }
    #expect(throws: DBusError.self) { try file.contents() }
  }

  @Test("A file descriptor has one owner and is closed with the owner's last reference")
  func ownership() throws {
    var file: FileDescriptor? = try FileDescriptor.sealed([1], name: "file")
    let copy = try #require(try file?.duplicate())
    #expect(copy.raw != file?.raw && copy != file)
    let number = try #require(file?.raw)
    let taken = try #require(file?.take())
    #expect(taken == number && file?.take() == nil && file?.raw == -1)
    #expect(throws: DBusError.self) { try file?.duplicate() }
    #expect(throws: DBusError.self) { try file?.readAll(limit: 1) }
    file = nil
    #expect(fcntl(taken, F_GETFD) >= 0, "what was taken stays open")
    #expect(try FileDescriptor(owning: taken).readAll(limit: 1) == [1])
  }

  @Test("Reading a descriptor stops at the size limit, and does not wait for a writer that sends nothing")
  func reading() throws {
    let file = try FileDescriptor.sealed([UInt8](repeating: 7, count: 200_000), name: "file")
    #expect(throws: DBusError.limitExceeded("The descriptor has more than 199999 bytes.")) {
      try file.readAll(limit: 199_999)
    }
    #expect(
      try FileDescriptor.sealed([UInt8](repeating: 7, count: 200_000), name: "file").readAll(limit: 200_000).count
        == 200_000)
    var ends: [Int32] = [-1, -1]
    // Close-on-exec from the beginning: otherwise a child process of another test would be a further writer.
    try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
    let (reader, writer) = (FileDescriptor(owning: ends[0]), FileDescriptor(owning: ends[1]))
    #expect(throws: DBusError.self) { try reader.readAll(limit: 10) }
    #expect(write(writer.raw, "abc", 3) == 3)
    writer.close()
    #expect(try reader.readAll(limit: 10) == Array("abc".utf8))
  }

  @Test("A memory file's name that contains NUL or is too long is refused")
  func names() {
    for name in ["a\0b", String(repeating: "a", count: 250)] {
      #expect(throws: DBusError.self) { try FileDescriptor.sealed([], name: name) }
    }
  }
}
