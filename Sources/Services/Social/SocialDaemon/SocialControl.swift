import ASN
import Bytes
import Common
import Crypto
import DBus
import Glibc
import Journal
import Loop
import Social
import SocialStore
import Store

/// The operations of programs on this machine on the server. Each is a request to the store by the operator, who has
/// all permissions.
@LoopActor
final class SocialControl {
  typealias Answer = @LoopActor (Result<[DBusValue], DBusError>) -> Void

  /// Maximum bytes of a backup that are copied at one time.
  private nonisolated static let slice = 1 << 20
  /// The file in the state directory to which a backup is written before it is copied.
  private nonisolated static let backup = "backup.db"
  /// Time after a change when the sizes of the store are read again.
  private static let refreshTime = Duration.milliseconds(100)

  let service: SocialService<SQLiteBlobStore>
  let keys: ServiceKeys
  private let login: Login
  private let directory: String
  private(set) var usage = StoreUsage()
  /// The problem of the store in one sentence; empty if it works.
  private(set) var trouble = ""
  /// Called when a figure or `trouble` changed.
  var onChange: @LoopActor () -> Void = {}
  /// Called when `trouble` changed.
  var onTrouble: @LoopActor () -> Void = {}
  private var refresh: Registration?

  /// - Parameters:
  ///   - admin: the administrator; without one, the service itself is the operator.
  ///   - directory: the path of the state directory.
  init(
    _ service: SocialService<SQLiteBlobStore>, keys: ServiceKeys, admin: UserKey?, directory: String
  ) {
    (self.service, self.keys, self.directory) = (service, keys, directory)
    login = Login(admin ?? keys.user, .admin)
    // A backup that was interrupted by a crash leaves a copy of the store.
    Self.removeBackup("\(directory)/\(Self.backup)")
    service.onTrouble = { [weak self] in self?.troubleChanged($0) }
    service.onActivity = { [weak self] in self?.refreshSoon() }
    refreshNow()
  }

  private func troubleChanged(_ error: ASN.StoreError?) {
    switch error {
    case nil: trouble = ""
    case .full?: trouble = "The blobs cannot be stored: the disk is full, or StoreSize= is reached."
    case .readOnly?: trouble = "The blobs cannot be stored: the file system is read-only."
    case .failed(let sentence)?: trouble = sentence
    }
    if error == nil {
      Log.shared.notice("The server stores blobs again", id: .socialStoreBack)
    } else {
      Log.shared.error("\(trouble)", id: .socialStoreTrouble)
    }
    onChange()
    onTrouble()
  }

  // MARK: Figures

  private func refreshSoon() {
    guard refresh == nil else { return }
    refresh = EventLoop.shared.schedule(after: Self.refreshTime) { [weak self] in self?.refreshNow() }
  }

  private func refreshNow() {
    refresh = nil
    service.run(
      { engine, _ in try? engine.store.usage() },
      then: { [weak self] usage in
        guard let self, let usage else { return }
        self.usage = usage
        onChange()
      })
  }

  var tallies: [Tally] {
    let counters = service.counters
    return [
      Tally("Accepted", counters.accepted), Tally("Refused", counters.refused + service.refusedUpgrades),
      Tally("Logins", counters.logins), Tally("FailedLogins", counters.failedLogins),
      Tally("Malformed", counters.malformed), Tally("DroppedBlobs", counters.droppedBlobs),
      Tally("Pushes", counters.pushes), Tally("SlowClients", counters.slow),
      Tally("Redirected", counters.redirected), Tally("Delayed", counters.delayed),
    ]
  }

  // MARK: Commands

  /// Executes a command of the protocol, and replies with the result of `body` for its answer.
  private func execute(
    _ arguments: [String], then: @escaping Answer,
    _ body: @escaping @LoopActor ([UInt8]) throws(DBusError) -> [DBusValue]
  ) {
    service.perform(.exec(Command(arguments)), by: login) { outcome in
      if let error = DBusError(outcome) { return then(.failure(error)) }
      do throws(DBusError) {
        then(.success(try body(outcome.data)))
      } catch {
        then(.failure(error))
      }
    }
  }

  func get(_ reference: String, then: @escaping Answer) {
    execute(["cat", reference], then: then) { (bytes) throws(DBusError) in
      [.descriptor(try FileDescriptor.sealed(bytes, name: "blob"))]
    }
  }

  /// Lists names.
  ///
  /// - Parameters:
  ///   - after: only names after this one, in the order of their bytes; an empty text means all.
  ///   - limit: maximum number of names; 0 means all.
  func list(_ reference: String, after: String, limit: Int, then: @escaping Answer) {
    execute(reference.isEmpty ? ["ls"] : ["ls", reference], then: then) { (bytes) throws(DBusError) in
      let last = Array(after.utf8)
      let names = Self.lines(bytes).filter {
        after.isEmpty || last.lexicographicallyPrecedes(Array($0.utf8))
      }
      return [.strings(limit == 0 ? names : Array(names.prefix(limit)))]
    }
  }

  func remove(_ reference: String, then: @escaping Answer) {
    execute(["rm", reference], then: then) { (bytes) throws(DBusError) in [.string(Self.text(bytes))] }
  }

  func newUser(_ kind: String, then: @escaping Answer) {
    execute(["newuser", kind], then: then) { (bytes) throws(DBusError) in
      [.descriptor(try FileDescriptor.sealed(bytes, name: "keys"))]
    }
  }

  /// Purges flagged blobs.
  ///
  /// - Parameter before: milliseconds since 1970; 0 means all flagged blobs.
  func collect(before: UInt64, isDry: Bool, then: @escaping Answer) {
    let (epoch, isTooLarge) = before.multipliedReportingOverflow(by: 1_000_000)
    guard !isTooLarge else { return then(.failure(.invalidArgs("The time is too large."))) }
    service.run(
      { engine, _ -> Result<[String], DBusError> in
        do {
          let sums = try engine.collect(before: before == 0 ? nil : epoch, isDry: isDry)
          if !isDry { try engine.store.commit() }
          return .success(sums.map(\.hex))
        } catch let error as Refusal {
          return .failure(.failed("\(error.sentence)."))
        } catch let error as ASN.StoreError {
          return .failure(DBusError(error))
        } catch {
          return .failure(.failed("\(error)"))
        }
      },
      then: { [weak self] result in
        self?.refreshSoon()
        then(result.map { [.strings($0)] })
      })
  }

  // MARK: Blobs of the operator

  /// Stores a blob in the directory of a user; with an empty name it is a message to that user.
  ///
  /// - Parameter owner: the user's key or a unique prefix of at least four digits; an empty text means the operator's
  ///   own directory.
  func put(_ owner: String, _ name: String, _ content: [UInt8], then: @escaping Answer) {
    let blobName: BlobName
    do throws(WireError) {
      blobName = try BlobName(name)
    } catch {
      return then(.failure(.invalidArgs("\(name) is not a name of at most \(Limits.name) bytes.")))
    }
    find(owner) { [weak self] found in
      guard let self else { return then(.failure(.disconnected("The server is stopping."))) }
      switch found {
      case .failure(let error): then(.failure(error))
      case .success(let user):
        var random = SystemRandom()
        let blob = Blob(
          owner: user, author: login.key, epoch: service.time, name: blobName, content: content,
          random: random.bytes(32))
        service.perform(.blob(blob), by: login) { outcome in
          if let error = DBusError(outcome) { then(.failure(error)) } else { then(.success([.string(blob.sum.hex)])) }
        }
      }
    }
  }

  private func find(_ owner: String, then: @escaping @LoopActor (Result<UserKey, DBusError>) -> Void) {
    if owner.isEmpty { return then(.success(login.key)) }
    guard let prefix = HexPrefix(owner), (Limits.userDigits...(2 * UserKey.size)).contains(owner.utf8.count),
      let first = try? UserKey(prefix.lowerBound(count: UserKey.size)),
      let last = try? UserKey(prefix.upperBound(count: UserKey.size))
    else {
      return then(.failure(.invalidArgs("A user is named by 4 to 64 digits of the public encryption key.")))
    }
    service.run(
      { engine, _ -> Result<UserKey, DBusError> in
        do throws(ASN.StoreError) {
          let users = try engine.store.users(from: first, through: last, limit: 2)
          guard let user = users.first else { return .failure(.notFound("No such USER.")) }
          return users.count == 1 ? .success(user) : .failure(.invalidArgs("Ambiguous USER."))
        } catch {
          return .failure(.failed("The store cannot be read."))
        }
      }, then: then)
  }

  // MARK: The store as a whole

  /// Writes a backup of the store to a file that a program passed.
  func backUp(to file: FileDescriptor, then: @escaping Answer) {
    var status = stat()
    guard fstat(file.raw, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      return then(.failure(.invalidArgs("Backup takes a regular file that is open for writing.")))
    }
    let path = "\(directory)/\(Self.backup)"
    service.run(
      { engine, _ -> DBusError? in
        defer { Self.removeBackup(path) }
        Self.removeBackup(path)
        do throws(ASN.StoreError) {
          try engine.store.backUp(to: path)
        } catch {
          return DBusError(error)
        }
        return Self.copy(path, to: file.raw)
      },
      then: { error in
        if let error { then(.failure(error)) } else { then(.success([])) }
      })
  }

  private nonisolated static func removeBackup(_ path: String) {
    for end in ["", "-journal", "-wal", "-shm"] { unlink(path + end) }
  }

  private nonisolated static func copy(_ path: String, to file: Int32) -> DBusError? {
    func failure() -> DBusError { .failed("The backup cannot be written: \(String(cString: strerror(errno))).") }
    let source = open(path, O_RDONLY | O_CLOEXEC)
    guard source >= 0 else { return failure() }
    defer { close(source) }
    var buffer = [UInt8](repeating: 0, count: slice)
    while true {
      let count = read(source, &buffer, slice)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { return failure() }
      if count == 0 { return fsync(file) == 0 ? nil : failure() }
      var rest = buffer[..<count]
      while !rest.isEmpty {
        let written = rest.withUnsafeBytes { write(file, $0.baseAddress, $0.count) }
        if written < 0, errno == EINTR { continue }
        guard written > 0 else { return failure() }
        rest = rest.dropFirst(written)
      }
    }
  }

  func export(to path: String, then: @escaping Answer) {
    service.run(
      { engine, _ -> Result<String, DBusError> in
        do throws(Store.StoreError) {
          let report = try StoreExport.write(engine.store, to: path)
          return .success(
            "\(report.blobs) blobs and \(report.links) links were written, \(report.omitted) links omitted.")
        } catch {
          return .failure(.failed(error.sentence))
        }
      }, then: { then($0.map { [.string($0)] }) })
  }

  func `import`(from path: String, then: @escaping Answer) {
    service.run(
      { engine, _ -> Result<String, DBusError> in
        do throws(ASN.StoreError) {
          let report = try StoreImport.read(from: path, into: engine.store)
          let problems = report.problems == 0 ? "" : " Not imported: \(report.examples.joined(separator: "; "))."
          return .success(
            "\(report.blobs) blobs and \(report.links) links were read, \(report.problems) files passed over.\(problems)"
          )
        } catch {
          return .failure(DBusError(error))
        }
      },
      then: { [weak self] result in
        self?.refreshSoon()
        then(result.map { [.string($0)] })
      })
  }

  // MARK: Text

  private static func text(_ bytes: [UInt8]) -> String {
    let text = String(decoding: bytes, as: UTF8.self)
    return text.hasSuffix("\n") ? String(text.dropLast()) : text
  }

  private static func lines(_ bytes: [UInt8]) -> [String] {
    bytes.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
  }
}

extension DBusError {
  /// Converts the outcome of a failed request; nil if the request succeeded.
  init?(_ outcome: StoreOutcome) {
    guard outcome.result != .success else { return nil }
    let text = String(decoding: outcome.data, as: UTF8.self)
    let sentence = text.isEmpty ? outcome.result.sentence : text
    switch outcome.result {
    case .denied: self = .denied("\(sentence).")
    case .illFormatted: self = .invalidArgs("\(sentence).")
    case .unsupported: self = DBusError(.notSupported, "\(sentence).")
    case _ where sentence.hasPrefix("No such"): self = .notFound("\(sentence).")
    default: self = .failed("\(sentence).")
    }
  }

  init(_ error: ASN.StoreError) {
    switch error {
    case .full: self = .limitExceeded("The disk is full, or StoreSize= is reached.")
    case .readOnly: self = .failed("The file system is read-only.")
    case .failed(let sentence): self = .failed(sentence)
    }
  }
}
