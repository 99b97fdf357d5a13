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
    worker.offload(write) { [weak self, generation] failure in
      guard let self, generation == self.generation else {
        return then(StoreError(.failed, "What the mesh keeps is being wiped."))
      }
      if let failure {
        error = failure
        return then(failure)
      }
      keep([.file(file)]) { [weak self] failure in
        guard let self else { return }
        if failure != nil { discard(file) }
        then(failure ?? (ledger.has(.file(file.number), on: .files) ? nil : Self.full))
      }
    }
  }

  /// What is kept already is dearer.
  private static let full = StoreError(.tooLarge, "FileStore= of [Mesh] is full of files that go after this one.")

  /// Takes back a file that the disk has not taken whole, so that it does not come up later.
  private func discard(_ file: MeshFile) {
    guard state == .open else { return }
    carryOut(ledger.discard(file))
    commit()
  }

  /// The content of a file that is kept.
  public func content(
    of file: MeshFile, then: @escaping @LoopActor (Result<[UInt8], StoreError>) -> Void
  ) {
    guard state == .open else { return refuse { then(.failure($0)) } }
    let read: @Sendable () -> Result<[UInt8], StoreError> = { [disk] in
      do throws(StoreError) { return .success(try disk.read(file.place)) } catch { return .failure(error) }
    }
    worker.offload(read) { then($0) }
  }
}
