import Common
import Glibc
import Loop
import TestSupport
import Testing

import func CMemFD.memfd_create

@testable import DBus

@Suite("Reading files that callers pass")
struct FileReaderTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A file whose reads block delays only its own worker, and its caller gets an error at the time limit")
  @LoopActor
  func hanging() throws {
    let desk = Desk()
    let reader = desk.reader(atOnce: 2, waiting: 1)
    var results: [Int: Result<[UInt8], DBusError>] = [:]
    for number in 0..<4 {
      reader.read(try FileDescriptor.sealed([UInt8(number)], name: "file"), of: .user(1), limit: 10) {
        results[number] = $0
      }
    }
    #expect(desk.workers.map(\.held.count) == [1, 1], "two are read, one waits, one is too many")
    desk.clock.run()
    #expect(results.keys.sorted() == [3])
    #expect(results[3]?.error?.is(.busy) == true)
    desk.clock.advance(by: .seconds(10))
    #expect(results.keys.sorted() == [0, 1, 2, 3])
    #expect((0..<3).allSatisfy { results[$0]?.error?.is(.timeout) == true })
    #expect(reader.refused == 1 && reader.late == 3)

    // Both workers still hang: a new request waits for its timeout and no longer, and is not read afterwards.
    reader.read(try FileDescriptor.sealed([4], name: "file"), of: .user(1), limit: 10) { results[4] = $0 }
    desk.clock.advance(by: .seconds(10))
    #expect(results[4]?.error?.is(.timeout) == true)
    #expect(desk.workers.map(\.held.count) == [1, 1])

    // One file's read returns long after its caller was answered: the worker reads the next file.
    desk.workers[0].release()
    reader.read(try FileDescriptor.sealed([5], name: "file"), of: .user(1), limit: 10) { results[5] = $0 }
    desk.workers[0].release()
    #expect(try results[5]?.get() == [5])
    #expect(results[0]?.error?.is(.timeout) == true && reader.late == 4)
  }

  @Test(
    "A user whose files block gets at most half of the workers and queue, and files of others are read")
  @LoopActor
  func shares() throws {
    let desk = Desk()
    let reader = desk.reader(atOnce: 2, waiting: 4, ofUser: 1)
    var results: [String: Result<[UInt8], DBusError>] = [:]
    func read(_ name: String, of owner: FileReader.Owner) throws {
      let file = try FileDescriptor.sealed(Array(name.utf8), name: "file")
      reader.read(file, of: owner, limit: 10) { results[name] = $0 }
    }
    // One is read, two wait, and one more is refused, whichever of the user's programs asks.
    for number in 0..<4 { try read("slow \(number)", of: .user(1)) }
    desk.clock.run()
    #expect(results.keys.sorted() == ["slow 3"] && reader.refused == 1)
    for owner: FileReader.Owner in [.user(2), .program(":1.2"), .user(2)] { try read("\(owner)", of: owner) }
    #expect(desk.workers.map(\.held.count) == [1, 1])
    for _ in 0..<3 { if !desk.workers[1].held.isEmpty { desk.workers[1].release() } }
    #expect(try results["user(2)"]?.get() == Array("user(2)".utf8))
    #expect(results.count == 3 && desk.workers.map(\.held.count) == [1, 0])
    // When the first read returns the next one begins, one at a time.
    desk.workers[0].release()
    #expect(try results["slow 0"]?.get() == Array("slow 0".utf8))
    #expect(desk.workers.map(\.held.count).reduce(0, +) == 1)
  }

  @Test("Files are read in the order of their calls, and a worker thread is used again")
  @LoopActor
  func order() throws {
    let desk = Desk()
    let reader = desk.reader(atOnce: 1, waiting: 2)
    var order: [UInt8] = []
    for number: UInt8 in 1...3 {
      reader.read(try FileDescriptor.sealed([number], name: "file"), of: .user(1), limit: 1) {
        order += (try? $0.get()) ?? []
      }
    }
    for _ in 0..<3 { desk.workers[0].release() }
    #expect(order == [1, 2, 3] && desk.workers.count == 1)
    desk.clock.advance(by: .seconds(60))
    #expect(reader.late == 0 && reader.refused == 0, "a file that was read is not late")
  }

  @Test("Only regular files and sealed memory files are read, up to the size limit")
  func kinds() throws {
    #expect(try FileDescriptor.sealed([1, 2], name: "file").readFile(limit: 2) == [1, 2])
    #expect(throws: DBusError.limitExceeded("The file has more than 1 bytes.")) {
      try FileDescriptor.sealed([1, 2], name: "file").readFile(limit: 1)
    }
    #expect(throws: DBusError.timeout("The file took too long.")) {
      try FileDescriptor.sealed([1, 2], name: "file").readFile(limit: 2, isGivenUp: { true })
    }
    let plain = FileDescriptor(owning: open(#filePath, O_RDONLY | O_CLOEXEC))
    #expect(try plain.readFile(limit: 1 << 20).starts(with: Array("import Common".utf8)))

    var ends: [Int32] = [-1, -1]
    try #require(pipe(&ends) == 0)
    let (pipe, writer) = (FileDescriptor(owning: ends[0]), FileDescriptor(owning: ends[1]))
    #expect(write(writer.raw, "abc", 3) == 3)
    let directory = FileDescriptor(owning: open("/", O_RDONLY | O_CLOEXEC))
    let device = FileDescriptor(owning: open("/dev/zero", O_RDONLY | O_CLOEXEC))
    for file in [pipe, directory, device] { #expect(Self.error(file)?.is(.invalidArgs) == true) }

    // Seals of memfd: 2 forbids shrinking, 4 growing, 8 writing. A file counts as sealed only with all three.
    for seals: Int32 in [0, 2, 4, 8, 2 | 4, 2 | 8, 4 | 8] {
      let memory = FileDescriptor(owning: memfd_create("file", 2))
      try #require(fcntl(memory.raw, 1033, seals) == 0)
      #expect(Self.error(memory)?.is(.invalidArgs) == true, "seals \(seals)")
    }
  }

  @Test(
    "A file of procfs or sysfs is refused without being read",
    arguments: [
      "/proc/self/maps", "/proc/self/environ", "/proc/sys/kernel/random/uuid", "/proc/version", "/proc/kallsyms",
      "/sys/kernel/notes", "/sys/kernel/uevent_seqnum", "/sys/fs/cgroup/cgroup.controllers",
    ])
  func kernelFiles(path: String) throws {
    let file = FileDescriptor(owning: open(path, O_RDONLY | O_CLOEXEC))
    // Files that do not exist on this machine are skipped.
    guard file.raw >= 0 else { return }
    #expect(Self.error(file)?.is(.invalidArgs) == true)
    #expect(lseek(file.raw, 0, SEEK_CUR) == 0)
  }

  @Test("Files on disk, in tmpfs and in memory are not mistaken for procfs or sysfs files")
  func ordinaryFiles() throws {
    for path in [#filePath, "/etc/passwd"] {
      let file = FileDescriptor(owning: open(path, O_RDONLY | O_CLOEXEC))
      #expect(Self.error(file)?.is(.invalidArgs) != true, "\(path)")
    }
    #expect(Self.error(try FileDescriptor.sealed([1], name: "file")) == nil)
    var path = Array("/dev/shm/earshot-XXXXXX".utf8CString)
    let shared = FileDescriptor(owning: mkstemp(&path))
    unlink(path)
    if shared.raw >= 0 { #expect(Self.error(shared) == nil) }
  }

  private static func error(_ file: FileDescriptor) -> DBusError? {
    do throws(DBusError) {
      _ = try file.readFile(limit: 100)
      return nil
    } catch {
      return error
    }
  }

  @Test("A file passed with a call is read, and a read error is returned as the call's error")
  @LoopActor
  func call() async throws {
    let table = try await Table()
    defer { table.close() }
    let object = table.export(
      Interface(
        Table.interface,
        methods: [
          Method(
            "Read", in: [Argument("file", "h")], out: [Argument("bytes", "ay")],
            handler: { call in
              guard let file = call.arguments.first?.asDescriptor else { return call.fail(.failed("no file")) }
              call.read(file, limit: 5) { result in
                do throws(DBusError) { call.reply(.bytes(try result.get())) } catch { call.fail(error) }
              }
            })
        ]))
    defer { object.cancel() }
    let file = try FileDescriptor.sealed(Array("12345".utf8), name: "file")
    #expect(try await table.call("Read", [.descriptor(file)]).first?.asBytes == Array("12345".utf8))
    let large = try FileDescriptor.sealed(Array("123456".utf8), name: "file")
    #expect(await table.error("Read", [.descriptor(large)])?.is(.limitExceeded) == true)
    var ends: [Int32] = [-1, -1]
    try #require(pipe(&ends) == 0)
    let (pipe, writer) = (FileDescriptor(owning: ends[0]), FileDescriptor(owning: ends[1]))
    #expect(await table.error("Read", [.descriptor(pipe)])?.is(.invalidArgs) == true)
    writer.close()
  }
}

extension Result where Failure == DBusError {
  fileprivate var error: DBusError? {
    if case .failure(let error) = self { error } else { nil }
  }
}

/// A reader with a manual clock, and workers that the test releases.
@LoopActor
private final class Desk {
  let clock = HandClock()
  private(set) var workers: [HeldWorker] = []

  /// - Parameter ofUser: maximum number of simultaneous reads per user; a user may have half of the waiting ones.
  ///   Nil: no limit per user.
  func reader(atOnce: Int, waiting: Int, ofUser: Int? = nil) -> FileReader {
    var limits = BusLimits()
    limits.filesAtOnce = atOnce
    limits.filesOfUser = ofUser ?? atOnce
    limits.waitingFiles = waiting
    limits.waitingFilesOfUser = ofUser == nil ? waiting : waiting / 2
    return FileReader(clock, limits: limits) {
      let worker = HeldWorker()
      self.workers.append(worker)
      return worker
    }
  }
}
