import Common
import DBus
import Loop
import Store
import TestSupport
import Testing

@testable import Mesh

/// File descriptors of the mesh's files that programs hold open.
@Suite("Mesh files that programs have open")
struct OpenFilesTests {
  init() { EventLoop.shared.runInBackground() }

  /// Files of 1,000 bytes whose reads the test completes.
  @LoopActor
  private final class Shelf {
    let scheduler = HandClock()
    private(set) var reads: [UInt32] = []
    private var answers: [(UInt32, @LoopActor (OpenFiles.Content) -> Void)] = []
    lazy var opened = OpenFiles(byteLimit: 3000, scheduler: scheduler) { [weak self] number, then in
      self?.reads.append(number)
      self?.answers.append((number, then))
    }

    /// Opens a file, and returns the immediate result.
    @discardableResult
    func open(_ number: UInt32) -> Opened {
      let result = Opened()
      opened.open(number) { result.answer = $0 }
      return result
    }

    func finish(_ content: OpenFiles.Content? = nil) {
      let waiting = answers
      answers = []
      for (number, then) in waiting { then(content ?? .success([UInt8](repeating: UInt8(number), count: 1000))) }
    }
  }

  @LoopActor
  private final class Opened {
    var answer: Result<FileDescriptor, DBusError>?
    var bytes: [UInt8]? { answer.flatMap { try? $0.get().contents() } }
    var isRefused: Bool {
      if case .failure(let error)? = answer { error.is(.limitExceeded) } else { false }
    }
  }

  @Test("Programs that open the same file share one memory file, which is read from the disk once")
  @LoopActor
  func shared() throws {
    let shelf = Shelf()
    let early = [shelf.open(7), shelf.open(7)]
    #expect(early.allSatisfy { $0.answer == nil })
    shelf.finish()
    let files = early + [shelf.open(7)]
    #expect(shelf.reads == [7] && shelf.opened.bytes == 1000)
    for file in files {
      #expect(try file.answer?.get().readAll(limit: 2000) == [UInt8](repeating: 7, count: 1000))
    }
  }

  @Test("The total size of open files is limited, and closed files free their share")
  @LoopActor
  func bounded() {
    let shelf = Shelf()
    var kept = (1...3 as ClosedRange<UInt32>).map { shelf.open($0) }
    shelf.finish()
    #expect(kept.allSatisfy { $0.bytes?.count == 1000 } && shelf.opened.bytes == 3000)
    let tooMuch = shelf.open(4)
    shelf.finish()
    #expect(tooMuch.isRefused && shelf.opened.bytes == 3000)
    #expect(shelf.open(2).bytes?.first == 2, "one that is held costs nothing")
    kept.remove(at: 0)
    let next = shelf.open(4)
    shelf.finish()
    #expect(next.bytes?.first == 4 && shelf.opened.bytes == 3000)
    #expect(kept.allSatisfy { $0.bytes?.count == 1000 })
  }

  @Test("A mesh file uses no memory 60 s after it was closed")
  @LoopActor
  func dropped() {
    let shelf = Shelf()
    var kept: Opened? = shelf.open(1)
    shelf.open(2)
    shelf.finish()
    shelf.scheduler.advance(by: .seconds(61))
    #expect(shelf.opened.bytes == 1000 && kept?.bytes?.first == 1)
    kept = nil
    shelf.scheduler.advance(by: .seconds(61))
    #expect(shelf.opened.bytes == 0)
    shelf.open(1)
    #expect(shelf.reads == [1, 2, 1])
  }

  @Test(
    "A deleted or wiped file cannot be opened again, and programs keep the descriptors they have",
    arguments: [true, false])
  @LoopActor
  func deleted(isWiped: Bool) throws {
    let village = Village()
    let (ann, bob) = (village.add("ann"), village.add("bob", at: 5))
    #expect(village.wait { village.isAcquainted })
    _ = try ann.mesh.files.send(file: [1, 2, 3], name: "a", mime: "", to: "")
    #expect(village.wait(.seconds(20)) { bob.mesh.files.log.numbers.count == 1 })
    let number = try #require(bob.mesh.files.log.numbers.first)
    let opened = OpenFiles(of: bob.mesh)
    var result: Opened? = Opened()
    opened.open(number) { [weak result] in result?.answer = $0 }
    #expect(village.wait(.seconds(5)) { result?.bytes == [1, 2, 3] } && opened.bytes == 3)
    let late = Opened()
    let others = OpenFiles(of: bob.mesh)
    others.open(number) { late.answer = $0 }
    if isWiped { bob.mesh.wipe { _ in } } else { bob.mesh.files.delete(number) { _ in } }
    #expect(village.wait(.seconds(5)) { bob.mesh.files.log.numbers.isEmpty })
    let again = Opened()
    opened.open(number) { again.answer = $0 }
    #expect(village.wait(.seconds(5)) { again.answer != nil } && again.bytes == nil)
    village.time.advance(by: .seconds(61))
    #expect(result?.bytes == [1, 2, 3] && opened.bytes == 3, "its memory is this service's")
    result = nil
    village.time.advance(by: .seconds(61))
    #expect(opened.bytes == 0)
    #expect(village.wait(.seconds(5)) { late.answer != nil } && others.bytes == 0)
    guard case .failure(let error)? = late.answer else {
      Issue.record("what was deleted while it was read is given")
      return
    }
    #expect(error.is(.notFound) || error.is(.failed))
  }

  @Test("The files read at once and the programs that wait are limited, and each of them gets a failure")
  @LoopActor
  func waiting() {
    let shelf = Shelf()
    let many = (0..<20).map { _ in shelf.open(1) }
    #expect(many.count { $0.isRefused } == 20 - OpenFiles.waitingLimit)
    let others = (2..<12 as Range<UInt32>).map { shelf.open($0) }
    #expect(others.count { $0.isRefused } == 10 - (OpenFiles.readingLimit - 1))
    #expect(shelf.reads.count == OpenFiles.readingLimit)
    shelf.finish(.failure(StoreError(.failed, "The disk hangs.")))
    for opened in many + others where !opened.isRefused {
      guard case .failure(let error)? = opened.answer else {
        Issue.record("no failure")
        continue
      }
      #expect(error.is(.failed))
    }
    #expect(shelf.opened.bytes == 0)
  }
}
