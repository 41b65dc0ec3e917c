/* How rounds commit and epochs change: the protocol of docs/reliability.md as a model for spin.

   Three slots, ROUNDS rounds, EPOCHS epochs. Processes 0 and 1 begin, process 2 is a newcomer (a spare)
   that waits to be taken in. Promised is uniform agreement: whoever applied an update of a round, be it
   alive, dead or long excluded, applied the same one: of the same epoch, with the same payload (total
   weight and skip flag).

   What may happen, at any instant and in any order:
     - a worker dies; a process without anything is started in its slot, and is taken in or not;
     - a worker takes its epoch for failed and joins again, or goes on in it long after the others have
       left it; messages to it arrive late or never;
     - a coordinator dies with all that it has in memory, and members re-attach to the next one; or a
       second one takes over while the first still counts votes. So an epoch is decided at any time, by
       any set of workers that have joined, and votes for older epochs count on;
     - a worker that is late takes part with weight 0, or somebody has a value that is not finite: the
       payload of the round is not the usual one;
     - a newcomer contributes weight 0 and votes before it has the state.

   Where one order of two steps allows all that the other does, the model takes it: whoever can contribute
   has done so, who has prepared has voted, with the last vote the commit is on its way to everybody. It
   may arrive never, which is the same as not having been sent. A record that is decided is on disk: one
   that was lost while it was written was told to nobody.

   -DMUT=n makes a deliberate mistake, which must be found. -DGOAL=n asserts that something never happens
   which must be able to happen: so the search is known to reach it. */
#ifndef MUT
#define MUT 0
#endif
#ifndef GOAL
#define GOAL 0
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef EPOCHS
#define EPOCHS 3
#endif
#ifndef CRASHES
#define CRASHES 1             /* of workers; each slot's once at most */
#endif
#ifndef RESTARTS
#define RESTARTS 1            /* of coordinators; takeovers are not counted */
#endif

#define NO_FENCING 1          /* who has joined still prepares, votes and applies in the old epoch */
#define NO_VOTE 2             /* what is exchanged is applied at once */
#define STEP_ONLY 3           /* who prepared the round of the base applies it, of whatever epoch */
#define BEFORE_PERSIST 4      /* joins are answered while the record is being written */
#define WEIGHT_FROM_MEMORY 5  /* only the coordinator's memory has the payload of a round */
#define ABORT_FIRST 6         /* who leaves an epoch drops what it prepared before the base is decided */
#define NO_WITNESS 7          /* the base of an epoch is taken again though no member says it was empty */
#define NEWCOMER_DENIES 8     /* a newcomer that still receives its state brings nothing */
#define NEWCOMER_HOLDS 9      /* a newcomer says that it has what it only counted */

#define USUAL 1               /* payloads; what nobody remembers is taken for the usual one */
#define OTHER 2               /* a weight 0 or a skip, which are lost and kept in the same way */

/* On disk: the newest decided epoch, and of each epoch what its record and the answers to joins say. */
byte newest = 1;
byte members[EPOCHS + 1], seconds[EPOCHS + 1];  /* slots; those whose second process it was */
byte base[EPOCHS + 1], base_epoch[EPOCHS + 1], holders[EPOCHS + 1];

/* In memory of coordinators and on the wire, for each (epoch, round). */
#define AT(e, r) (((e) - 1) * ROUNDS + (r) - 1)
#define PAIRS (EPOCHS * ROUNDS)
byte votes[PAIRS];            /* who voted; 0 again once it is committed */
bool committed[PAIRS];
bool attached = 1;            /* the coordinator knows the newest epoch's members and rounds */
bool writing, forgot, knows[EPOCHS + 1];  /* of the mutations 4 and 5 */

/* Of the data plane. */
byte contributed[PAIRS], payload[PAIRS];

/* Workers. */
#define WORKS 0
#define JOINED 1              /* from here on frozen; 1 + e: the answer on its way names epoch e */
bool has[3], prepared[3], second[3];  /* has: the state of its round */
byte place[3], epoch[3], round[3];

byte applied[ROUNDS + 1];     /* by anyone, ever: the update of each round; 0: none */
byte crashes = CRASHES, restarts = RESTARTS, odd = 1;
byte i, m, from, held;        /* of the step in hand; 0 between two */

#define IN(w, set) (((set) >> (w)) & 1)
#define NEXT(w) AT(epoch[w], round[w] + 1)
#define UPDATE(e, what) ((e) + ((what) << 2))

inline Apply(r, update) {
  printf("  round %d: the update of epoch %d, payload %d\n", r, (update) & 3, (update) >> 2);
  assert(applied[r] == 0 || applied[r] == (update));
  applied[r] = update
}

inline Contribute(w) {
  if :: round[w] < ROUNDS -> contributed[NEXT(w)] = contributed[NEXT(w)] | (1 << w) :: else fi
}

#define ACTS(w) (epoch[w] > 0 && round[w] < ROUNDS && (place[w] == WORKS || MUT == NO_FENCING))
#define EXCHANGED(w) (ACTS(w) && !prepared[w] && contributed[NEXT(w)] == members[epoch[w]])

/* A vote of the newest epoch needs a coordinator that knows all members. Votes of older ones go to a
   coordinator that does not know of the newer. */
inline Vote(w) {
  if
  :: !committed[NEXT(w)] && (epoch[w] < newest || attached) ->
       votes[NEXT(w)] = votes[NEXT(w)] | (1 << w);
       if :: votes[NEXT(w)] == members[epoch[w]] -> votes[NEXT(w)] = 0; committed[NEXT(w)] = 1 :: else fi
  :: else
  fi
}

inline Prepare(w, what) {
  if :: payload[NEXT(w)] == 0 -> payload[NEXT(w)] = what :: else fi;
  printf("%d prepares (%d, %d)\n", w, epoch[w], round[w] + 1);
  if
  :: MUT == NO_VOTE -> round[w]++; Apply(round[w], UPDATE(epoch[w], payload[AT(epoch[w], round[w])]));
       Contribute(w)
  :: else -> prepared[w] = 1; Vote(w)
  fi
}

#define DONATES(d, w) (place[d] == WORKS && epoch[d] == epoch[w] && has[d])

inline Work(w) {
  if
  :: d_step { EXCHANGED(w) -> Prepare(w, USUAL) }
  :: d_step { EXCHANGED(w) && payload[NEXT(w)] == 0 && odd > 0 -> odd--; Prepare(w, OTHER) }
  :: d_step { ACTS(w) && prepared[w] && committed[NEXT(w)] ->
       printf("%d hears the commit of (%d, %d)\n", w, epoch[w], round[w] + 1);
       assert(GOAL != 1 || payload[NEXT(w)] == USUAL || !second[w] || !has[w]);
       prepared[w] = 0; round[w]++;
       if :: has[w] -> Apply(round[w], UPDATE(epoch[w], payload[AT(epoch[w], round[w])])) :: else fi;
       Contribute(w) }
  /* The state of the base comes from a holder, and the rounds that were committed meanwhile follow. */
  :: d_step { ACTS(w) && !has[w] && (DONATES(0, w) || DONATES(1, w) || DONATES(2, w)) ->
       printf("%d has received the state of (%d, %d)\n", w, epoch[w], round[w]);
       assert(GOAL != 2 || round[w] == base[epoch[w]]);
       has[w] = 1; i = base[epoch[w]] + 1;
       do
       :: i <= round[w] -> Apply(i, UPDATE(epoch[w], payload[AT(epoch[w], i)])); i++
       :: else -> break
       od;
       i = 0 }
  fi
}

/* Of an epoch before the newest in which nobody is and will be, nothing is read any more. Forgetting it
   makes states equal. */
#define CONCERNS(w, e) (epoch[w] == (e) || place[w] == JOINED + (e))
inline Forget(e) {
  if
  :: (e) < newest && members[e] != 0 && !CONCERNS(0, e) && !CONCERNS(1, e) && !CONCERNS(2, e) &&
     MUT != BEFORE_PERSIST ->
       members[e] = 0; seconds[e] = 0; base[e] = 0; base_epoch[e] = 0; holders[e] = 0;
       i = 1;
       do
       :: i <= ROUNDS -> votes[AT(e, i)] = 0; committed[AT(e, i)] = 0; contributed[AT(e, i)] = 0;
            payload[AT(e, i)] = 0; i++
       :: else -> break
       od;
       i = 0
  :: else
  fi
}

inline Change(w) {
  if
  :: d_step { !second[w] && crashes > 0 && (w != 0 || second[1]) ->  /* 0 and 1 are alike: 1 first */
       printf("%d dies, another process of its slot joins\n", w);
       crashes--; second[w] = 1;
       place[w] = JOINED; epoch[w] = 0; round[w] = 0; prepared[w] = 0; has[w] = 0;
       Forget(1); Forget(2) }
  /* It hears of a failure, or nothing any more; or the answer to its join is lost. */
  :: d_step { place[w] != JOINED ->
       printf("%d joins again\n", w);
       if :: MUT == ABORT_FIRST && place[w] == WORKS -> prepared[w] = 0 :: else fi;
       place[w] = JOINED; Forget(1); Forget(2) }
  :: d_step { place[w] > JOINED && (!writing || place[w] - JOINED < newest || MUT == BEFORE_PERSIST) ->
       m = place[w] - JOINED; held = IN(w, holders[m]);
       printf("%d hears that epoch %d begins\n", w, m);
       if
       :: MUT == STEP_ONLY && has[w] ->
            held = (round[w] == base[m] || (prepared[w] && round[w] + 1 == base[m]))
       :: else
       fi;
       if
       :: held && prepared[w] && round[w] + 1 == base[m] ->
            assert(GOAL != 3);
            if
            :: MUT == WEIGHT_FROM_MEMORY && !knows[m] -> Apply(base[m], UPDATE(epoch[w], USUAL))
            :: else -> Apply(base[m], UPDATE(epoch[w], payload[NEXT(w)]))
            fi
       :: else
       fi;
       assert(!held || has[w]);
       has[w] = held; round[w] = base[m]; prepared[w] = 0; epoch[w] = m; place[w] = WORKS;
       Contribute(w); Forget(1); Forget(2);
       m = 0; held = 0 }
  fi
}

/* What a joiner brings: the last epoch in which it was active, the round that it reached there, whether
   the next is prepared, whether it has the state of that round or is still receiving it. */
#define SURVIVES(w) (IN(w, members[newest]) && IN(w, seconds[newest]) == second[w])
#define ACTIVE(w) (SURVIVES(w) && epoch[w] == newest && (has[w] || MUT != NEWCOMER_DENIES))
#define UNREADY(w) (SURVIVES(w) && !(ACTIVE(w) && round[w] == m && prepared[w]))
#define HAS(w) (has[w] || (MUT == NEWCOMER_HOLDS && epoch[w] == newest))
/* It was active before the newest epoch and has what that began with: by its name, or because the
   epochs between began with the same. */
#define HAS_OLD_BASE(w) \
  ((epoch[w] == base_epoch[newest] && \
    (round[w] == base[newest] || (round[w] + 1 == base[newest] && prepared[w]))) || \
   (epoch[w] > base_epoch[newest] && epoch[w] < newest && round[w] == base[newest]))
#define HOLDS(w) (HAS(w) && \
  ((ACTIVE(w) && (round[w] == m || (from == newest && round[w] + 1 == m && prepared[w]))) || \
   (!ACTIVE(w) && from == base_epoch[newest] && m == base[newest] && HAS_OLD_BASE(w))))
#define SOME(set, WHAT) ((IN(0, set) && WHAT(0)) || (IN(1, set) && WHAT(1)) || (IN(2, set) && WHAT(2)))
#define WAITS(w, set) (!IN(w, set) || place[w] == JOINED)

#define REACH(w, set) if :: IN(w, set) && ACTIVE(w) && round[w] > m -> m = round[w] :: else fi
#define HOLD(w, set) if :: IN(w, set) && HOLDS(w) -> held = held | (1 << w) :: else fi
#define ANSWER(w, set) \
  if :: IN(w, set) -> place[w] = JOINED + newest; seconds[newest] = seconds[newest] | (second[w] << w) \
     :: else fi

/* A coordinator decides the next epoch: the joiners `set` are its members. */
inline Decide(set) {
  d_step { newest < EPOCHS && !writing && WAITS(0, set) && WAITS(1, set) && WAITS(2, set) &&
           (SOME(set, SURVIVES) || MUT == NO_WITNESS) ->
    m = base[newest]; from = base_epoch[newest];  /* rule B: nothing of the newest epoch was committed */
    if
    :: SOME(set, ACTIVE) ->                       /* rule A */
         REACH(0, set); REACH(1, set); REACH(2, set);
         if
         :: !SOME(set, UNREADY) -> m++; from = newest
         :: else -> if :: m > base[newest] -> from = newest :: else fi
         fi
    :: else -> assert(GOAL != 5)
    fi;
    HOLD(0, set); HOLD(1, set); HOLD(2, set);
    if
    :: held != 0 ->
         printf("epoch %d is decided: members %d, base (%d, %d) with %d\n", newest + 1, set, from, m, held);
         newest++;
         members[newest] = set; base[newest] = m; base_epoch[newest] = from; holders[newest] = held;
         attached = 1;
         writing = (MUT == BEFORE_PERSIST);
         knows[newest] = (MUT == WEIGHT_FROM_MEMORY && !forgot); forgot = 0;
         ANSWER(0, set); ANSWER(1, set); ANSWER(2, set)
    :: else  /* from the checkpoint: a declared rollback, which is not of this model */
    fi;
    m = 0; from = 0; held = 0 }
}

inline Restart() {
  printf("the coordinator restarts, its newest record is of epoch %d\n", newest);
  restarts--; writing = 0; attached = 0; forgot = (MUT == WEIGHT_FROM_MEMORY);
  i = 1;
  do :: i <= ROUNDS -> votes[AT(newest, i)] = 0; i++ :: else -> break od;
  i = 0
}
#define UNANSWER(w) if :: place[w] == JOINED + newest -> place[w] = JOINED :: else fi

#define BACK(w) (!IN(w, members[newest]) || (place[w] == WORKS && epoch[w] == newest))

inline Coordinator() {
  if
  :: d_step { restarts > 0 && attached -> Restart() }
  /* All members are back in the epoch that is on its disk, each with its round, the commit of it, and the
     vote that it sends again. The commit is still on its way to the others here. */
  :: d_step { !attached && BACK(0) && BACK(1) && BACK(2) ->
       printf("all have re-attached\n");
       assert(GOAL != 4);
       attached = 1;
       if :: prepared[0] && epoch[0] == newest -> Vote(0) :: else fi;
       if :: prepared[1] && epoch[1] == newest -> Vote(1) :: else fi;
       if :: prepared[2] && epoch[2] == newest -> Vote(2) :: else fi }
  :: d_step { writing -> writing = 0 }
  :: d_step { restarts > 0 && writing ->
       UNANSWER(0); UNANSWER(1); UNANSWER(2);
       members[newest] = 0; seconds[newest] = 0; base[newest] = 0; base_epoch[newest] = 0; holders[newest] = 0;
       newest--;
       Restart() }
  fi
}

init {
  d_step {
    members[1] = 3; holders[1] = 3;
    has[0] = 1; epoch[0] = 1; Contribute(0);
    has[1] = 1; epoch[1] = 1; Contribute(1);
    place[2] = JOINED
  }
  do
  :: Work(0) :: Work(1) :: Work(2)
  :: Change(0) :: Change(1) :: Change(2)
  :: Decide(1) :: Decide(2) :: Decide(4) :: Decide(3) :: Decide(5) :: Decide(6) :: Decide(7)
  :: Coordinator()
  od
}
