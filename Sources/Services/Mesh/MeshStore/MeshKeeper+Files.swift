import Bitchat
import Common
import Loop
import Store

/// Received files.
extension MeshKeeper {
  /// Maximum bytes of all files without a disk.
  static let bytesInMemory = 8 << 20

  /// Stores a file.
  ///
  /// - Parameter then: called when content and metadata are durable, or with the reason of a failure; then nothing of
  ///   the file is stored. The reason is `tooLarge` if there is no capacity for it, independent of the disk.
  public func keep(_ file: MeshFile, content: [UInt8], then: @escaping @LoopActor (StoreError?) -> Void) {
    guard state == .open else { return refuse(then) }
    guard content.count <= ledger.fileBytes else {
      return scheduler.soon { then(StoreError(.tooLarge, "The file is larger than FileStore= of [Mesh].")) }
    }
    let write: @Sendable () -> StoreError? = { [disk] in
      do throws(StoreError) {
        try disk.write(content, to: file.place)
        return nil
      } catch {
        return error
      }
    }
    let patience = patience(then: {})
    worker.offload(write) { [weak self, generation] failure in
      self?.answered(patience)
      guard let self, generation == self.generation else {
        return then(StoreError(.failed, "The mesh store is being wiped."))
      }
      if let failure {
        error = failure
        return then(failure)
      }
      keep([.file(file)]) { [weak self] failure in
        guard let self else { return }
        if let failure { discard(file, failure) }
        then(failure ?? (ledger.has(.file(file.number), on: .files) ? nil : Self.full))
      }
    }
  }

  /// Stored files take precedence over the new one.
  private static let full = StoreError(
    .tooLarge,
    "FileStore= of [Mesh] is full of files that take precedence over this one.")

  /// Removes a file that was not stored completely, so that it does not reappear.
  private func discard(_ file: MeshFile, _ failure: StoreError) {
    guard state == .open else { return }
    carryOut(ledger.discard(file))
    commit()
    // If commits fail for long while files are retried, their contents could fill the disk. A hanging commit may still
    // succeed, and its row refers to the content then.
    if failure.reason != .diskStalled { worker.offload({ [disk] in disk.erase(file.place) }, then: { _ in }) }
  }

  /// Reads the content of a stored file.
  ///
  /// - Parameter then: called once; with `diskStalled` if the disk takes too long.
  public func content(
    of file: MeshFile, then: @escaping @LoopActor (Result<[UInt8], StoreError>) -> Void
  ) {
    guard state == .open else { return refuse { then(.failure($0)) } }
    // A new request would wait behind the hanging one.
    guard hanging == 0 else { return scheduler.soon { then(.failure(Self.stalled)) } }
    let read: @Sendable () -> Result<[UInt8], StoreError> = { [disk] in
      do throws(StoreError) { return .success(try disk.read(file.place)) } catch { return .failure(error) }
    }
    let patience = patience { then(.failure(Self.stalled)) }
    worker.offload(read) { [weak self] result in
      let isInTime = !patience.isOver
      self?.answered(patience)
      if isInTime { then(result) }
    }
  }

  /// Starts the timeout of a disk operation, after which the disk counts as hanging.
  private func patience(then: @escaping @LoopActor () -> Void) -> Patience {
    let patience = Patience()
    patience.timer = scheduler.schedule(after: Self.patience) { [weak self, weak patience] in
      guard let self, let patience else { return }
      patience.isOver = true
      hanging += 1
      error = Self.stalled
      then()
    }
    return patience
  }

  private func answered(_ patience: Patience) {
    patience.timer = nil
    guard patience.isOver else { return }
    hanging -= 1
    if hanging == 0, !isStalled, error == Self.stalled { error = nil }
  }

  /// Timeout of one disk operation.
  @LoopActor
  private final class Patience {
    var timer: Registration?
    var isOver = false
  }
}
