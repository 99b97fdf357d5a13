import Bitchat
import Common
import Loop
import Store

/// Files that others have sent.
extension MeshKeeper {
  /// The most that they may have together where there is no disk.
  static let bytesInMemory = 8 << 20

  /// Keeps a file.
  ///
  /// - Parameter then: called when content and description survive a loss of power, or with the reason why not: then nothing
  ///   of the file is kept. The reason is `tooLarge` where there is no place for it, whatever the disk does.
  public func keep(_ file: MeshFile, content: [UInt8], then: @escaping @LoopActor (StoreError?) -> Void) {
    guard state == .open else { return refuse(then) }
    guard content.count <= ledger.fileBytes else {
      return scheduler.soon { then(StoreError(.tooLarge, "A file has more than FileStore= of [Mesh] allows.")) }
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
        return then(StoreError(.failed, "What the mesh keeps is being wiped."))
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

  /// What is kept already is dearer.
  private static let full = StoreError(.tooLarge, "FileStore= of [Mesh] is full of files that go after this one.")

  /// Takes back a file that the disk has not taken whole, so that it does not come up later.
  private func discard(_ file: MeshFile, _ failure: StoreError) {
    guard state == .open else { return }
    carryOut(ledger.discard(file))
    commit()
    // Where commits fail for long, and files are tried again meanwhile, their contents would fill the disk. A commit that hangs may
    // succeed yet, and the row names the content then.
    if failure.reason != .diskStalled { worker.offload({ [disk] in disk.erase(file.place) }, then: { _ in }) }
  }

  /// The content of a file that is kept.
  ///
  /// - Parameter then: called once; with `diskStalled` where the disk takes too long.
  public func content(
    of file: MeshFile, then: @escaping @LoopActor (Result<[UInt8], StoreError>) -> Void
  ) {
    guard state == .open else { return refuse { then(.failure($0)) } }
    // What else is asked for would wait behind what hangs.
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

  /// So long the disk has for a content. Then it is said to hang.
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

  /// What the disk is given for one content.
  @LoopActor
  private final class Patience {
    var timer: Registration?
    var isOver = false
  }
}
