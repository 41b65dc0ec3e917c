// CoordStore in etcd: the record outlives the coordinator's machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "server/coordinator/coord_store.h"
#include "server/coordinator/etcd/address.h"

namespace ringwood {

struct EtcdCoordStoreOptions {
  EtcdAddress etcd;
  int64_t revision = 0;  // of the leader's key, under which this process leads
  std::string key;       // for the hashes of incarnations
  Duration patience;     // for one Load or Save
};

// Load and Save are Refused, and say who leads, once the leader's key is no longer of `revision`;
// both then have read or written nothing. Load is linearizable. A Save that is Unavailable may
// still be written later, whole, unless a later Save of this process or another leader comes first.
std::unique_ptr<CoordStore> MakeEtcdCoordStore(EtcdCoordStoreOptions options);

}  // namespace ringwood
