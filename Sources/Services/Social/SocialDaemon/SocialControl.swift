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
  /// Name of the file in the state directory to which a backup is written before it is copied to the program's file.
  private nonisolated static let backup = "backup.db"
  /// Maximum number of names that one call of List returns.
  private nonisolated static let namesOfOneList = 16_384
  /// Time from a change until the sizes of the store are read again.
  private static let refreshTime = Duration.milliseconds(100)

  let service: SocialService<SQLiteBlobStore>
  let keys: ServiceKeys
  private let login: Login
  private let directory: String
  /// Maximum size of a blob that a program may store, in bytes.
  let blobLimit: Int
  /// Maximum bytes that Get returns: every blob can be read.
  private let contentLimit: Int
  /// Copies a backup to the file of a program. The file system of the file may be a program that never answers. Only
  /// further backups are then refused.
  private let copier = SerialWorker("backup")
  private var isBackingUp = false
  private(set) var usage = StoreUsage()
  /// The problem of the store in one sentence; empty if it works.
  private(set) var trouble = ""
  /// Called when a figure or `trouble` changed.
  var onChange: @LoopActor () -> Void = {}
  /// Called when `trouble` changed.
  var onTrouble: @LoopActor () -> Void = {}
  private var refresh: Registration?

  /// - Parameters:
  ///   - settings: the administrator, or the service itself if there is none; and the limits.
  ///   - directory: the path of the state directory.
  init(
    _ service: SocialService<SQLiteBlobStore>, keys: ServiceKeys, _ settings: SocialSettings, directory: String
  ) {
    (self.service, self.keys, self.directory) = (service, keys, directory)
    (blobLimit, contentLimit) = (settings.blob, max(settings.blob, settings.answer))
    login = Login(settings.admin?.key ?? keys.user, .admin)
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

  /// Runs a read request of the engine on the thread of the store, and answers with the value that `body` derives from
  /// it.
  private func ask<Value: Sendable>(
    then: @escaping Answer,
    _ work: @escaping @Sendable (CommandEngine<SQLiteBlobStore>) throws(Refusal) -> Value,
    _ body: @escaping @LoopActor (Value) throws(DBusError) -> [DBusValue]
  ) {
    service.run(
      { engine, _ -> Result<Value, DBusError> in
        do throws(Refusal) {
          return .success(try work(engine))
        } catch {
          return .failure(DBusError(error.result, error.sentence))
        }
      },
      then: { result in
        do throws(DBusError) {
          then(.success(try body(try result.get())))
        } catch {
          then(.failure(error))
        }
      })
  }

  func get(_ reference: String, then: @escaping Answer) {
    let (login, limit) = (login, contentLimit)
    ask(
      then: then,
      { (engine) throws(Refusal) in try engine.contents(reference, by: login, limit: limit) },
      { (bytes) throws(DBusError) in [.descriptor(try FileDescriptor.sealed(bytes, name: "blob"))] })
  }

  /// Lists names.
  ///
  /// - Parameters:
  ///   - after: only names behind this one, in the order of their bytes; empty: all.
  ///   - limit: maximum number of names; 0: all, which fails if these are more than one answer may have.
  func list(_ reference: String, after: String, limit: Int, then: @escaping Answer) {
    let (login, most) = (login, Self.namesOfOneList)
    let count = limit == 0 ? most + 1 : min(limit, most)
    ask(
      then: then,
      { (engine) throws(Refusal) in try engine.names(reference, by: login, after: after, limit: count) },
      { (names) throws(DBusError) in
        guard names.count <= most else {
          throw .limitExceeded("There are more than \(most) names. Give a limit, and continue after the last name.")
        }
        return [.strings(names)]
      })
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
    collect(before: before == 0 ? nil : epoch, isDry: isDry, after: nil, []) { [weak self] result in
      self?.refreshSoon()
      then(result.map { [.strings($0)] })
    }
  }

  /// Collects portion by portion, with a commit for each, so that other requests run in between.
  ///
  /// - Parameter collected: the sums of the earlier portions.
  private func collect(
    before: UInt64?, isDry: Bool, after last: Flag?, _ collected: [String],
    then: @escaping @LoopActor (Result<[String], DBusError>) -> Void
  ) {
    service.run(
      { engine, _ -> Result<CommandEngine<SQLiteBlobStore>.CollectedPortion, DBusError> in
        do {
          let portion = try engine.collect(before: before, isDry: isDry, after: last)
          if !isDry { try engine.store.commit() }
          return .success(portion)
        } catch {
          // What is not committed must not become part of the next commit.
          engine.store.rollBack()
          switch error {
          case let error as Refusal: return .failure(.failed("\(error.sentence)."))
          case let error as ASN.StoreError: return .failure(DBusError(error))
          default: return .failure(.failed("\(error)"))
          }
        }
      },
      then: { [weak self] result in
        switch result {
        case .failure(let error): then(.failure(error))
        case .success(let portion):
          let sums = collected + portion.sums.map(\.hex)
          guard let self, let last = portion.last else { return then(.success(sums)) }
          collect(before: before, isDry: isDry, after: last, sums, then: then)
        }
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
      return then(.failure(.invalidArgs("\(name) is not a valid blob name of at most \(Limits.name) bytes.")))
    }
    find(owner) { [weak self] found in
      guard let self else { return then(.failure(.disconnected("The server is stopping."))) }
      switch found {
      case .failure(let error): then(.failure(error))
      case .success(let user):
        service.perform(.make(owner: user, name: blobName, content: content), by: login) { outcome in
          if let error = DBusError(outcome) { return then(.failure(error)) }
          then(.success([.string(Self.text(outcome.data))]))
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

  /// Writes a backup of the store to a file that a program passed: one at a time.
  func backUp(to file: FileDescriptor, then: @escaping Answer) {
    guard !isBackingUp else { return then(.failure(.busy("Another backup is being written."))) }
    isBackingUp = true
    let path = "\(directory)/\(Self.backup)"
    let end: @LoopActor (DBusError?) -> Void = { [weak self] error in
      self?.isBackingUp = false
      if let error { then(.failure(error)) } else { then(.success([])) }
    }
    copier.offload(
      { Self.isRegular(file.raw) },
      then: { [weak self] isRegular in
        guard let self, isRegular else {
          return end(.invalidArgs("Backup takes a regular file that is open for writing."))
        }
        copyStore(to: path) { [weak self] error in
          guard let self, error == nil else { return end(error ?? .disconnected("The server is stopping.")) }
          copier.offload(
            { () -> DBusError? in
              defer { Self.removeBackup(path) }
              return Self.copy(path, to: file.raw)
            }, then: end)
        }
      })
  }

  /// Copies the store to a file of the state directory, on the thread of the store.
  private func copyStore(to path: String, then: @escaping @LoopActor (DBusError?) -> Void) {
    service.run(
      { engine, _ -> DBusError? in
        Self.removeBackup(path)
        do throws(ASN.StoreError) {
          try engine.store.backUp(to: path)
          return nil
        } catch {
          Self.removeBackup(path)
          return DBusError(error)
        }
      }, then: then)
  }

  private nonisolated static func isRegular(_ file: Int32) -> Bool {
    var status = stat()
    return fstat(file, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
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
}

extension DBusError {
  /// Converts the outcome of a failed request; nil if the request succeeded.
  init?(_ outcome: StoreOutcome) {
    guard outcome.result != .success else { return nil }
    self.init(outcome.result, String(decoding: outcome.data, as: UTF8.self))
  }

  /// A request that ended without success.
  init(_ result: ResultCode, _ text: String) {
    let sentence = text.isEmpty ? result.sentence : text
    switch result {
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
